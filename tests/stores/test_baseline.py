"""Files that were exported before the migrations became one baseline are imported by it.

``data/before-baseline-*.jsonl.gz`` were written by ``horae db export`` on tables of version 0020, the last before the
baseline, one on each kind of database: jobs in every state, keys, schedules and fires, acts of which one is under way,
a lane in the middle of its work, sealed and unsealed audit entries, error groups, statistics, retention rules. They
never change; every later release imports them.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from horae.actions.audit import seal_all, verify_audit
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.machinery import serve_due
from horae.app import Horae
from horae.attention import Control
from horae.stores.transfer.load import check, load
from horae.testing.clock import VirtualClock
from tests.attention.checker import look, wrong_with
from tests.stores.test_transfer import Open, migrated, rows_of, written
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url

__all__ = ["migrated"]

DATA = Path(__file__).parent / "data"
EXPORTED_AT = datetime(2030, 1, 7, 14, tzinfo=UTC)
CAREFUL = Control(must_confirm=frozenset({"refund"}))
KINDS = ("sqlite", "postgres", "mysql")
RICH = {
    "acts": 3, "act_moves": 2, "audit": 27, "chains": 3, "error_groups": 2, "events": 1, "facts": 8, "fires": 5,
    "follows": 1, "jobs": 17, "journal": 32, "keys": 4, "lanes": 1, "limits": 1, "needs": 1, "owners": 1, "queues": 2,
    "retention": 2, "runs": 15, "schedules": 3, "slots": 1, "stats": 14, "tasks": 3, "tokens": 1, "waits": 3,
}  # fmt: skip


@pytest.fixture(params=KINDS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "before.jsonl"
    path.write_bytes(gzip.decompress((DATA / f"before-baseline-{request.param}.jsonl.gz").read_bytes()))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_before_the_baseline_arrives_whole(file: Path, kind: str, migrated: Open, tmp_path: Path) -> None:
    engine, checked = migrated(kind), check(file)
    load(engine, checked)
    before = [json.loads(line) for line in file.read_bytes().splitlines()]
    after = of_known_columns(written(engine, tmp_path / "after.jsonl"), before)

    assert checked.schema == "0020"
    assert {name: count for name, count in checked.counts.items() if name in RICH} == RICH
    assert without_marks(rows_of(before)) == without_marks(rows_of(after))


def of_known_columns(lines: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what later versions of the tables have added."""
    known = {line["table"]: line["row"].keys() for line in before if "table" in line}
    return [
        {**line, "row": {name: value for name, value in line["row"].items() if name in known[line["table"]]}}
        for line in lines
        if line.get("table") in known
    ]


def without_marks(rows: set[str]) -> set[str]:
    """The lock of a database with partitions is no content."""
    return {row for row in rows if not row.startswith('["counted_partitions"')}


@pytest.mark.parametrize("kind", KINDS)
def test_work_of_before_the_baseline_goes_on(file: Path, kind: str, migrated: Open) -> None:
    engine = migrated(kind)
    running = load(engine, check(file))
    clock = VirtualClock(EXPORTED_AT)
    with Horae(engine.url.render_as_string(hide_password=False), clock=clock) as app:
        world = app.world
        verified = {each.owner: each.complaints for each in verify_audit(world)}
        sealed = seal_all(world)
        while endings.lose_expired(world):
            continue
        again = app.jobs.enqueue("add", {"x": 1, "text": '鸮 é " \\'}, key="once", tags=["a", "b"], queue="sums")
        act = [each for each in app.acts.list() if each.state == "running"]
        while serve_due(world, "w"):
            continue
        clock.advance(timedelta(minutes=1))
        [job] = claims.pull(world, worker_id="w3", queues=["long"])
        endings.ack(world, job.id, job.token)

        assert (running, verified, sealed) == (1, {"alice": (), "system": ()}, 1)
        assert [each.complaints for each in verify_audit(world)] == [(), ()]
        assert (again.id, again.deduplicated) == ("job_3", True)
        assert [app.acts.get(each.id).state for each in act] == ["done"]
        assert jobs.get(world, job.id).state == "succeeded"
        assert app.jobs.get("job_3").state == "queued"
        assert {each.key for each in app.schedules.list()} == {"nightly", "often", "after-nightly"}
        assert {(rule.queue, rule.outcome) for rule in app.admin.retention().rules} == {
            ("pay", None),
            (None, "succeeded"),
        }
        assert sorted((each.title, each.count) for each in app.error_groups.list()) == [
            ("TimeoutError: no answer", 1),
            ("ValueError: order <n> is gone", 3),
        ]
        assert not wrong_with(look(world, "ops", controls=(CAREFUL,)))
