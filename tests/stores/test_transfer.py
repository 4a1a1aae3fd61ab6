"""A database as a file, and the file as a database of another kind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Integer, LargeBinary, SmallInteger, String, Text, insert, select, text

from horae.actions.audit import seal_all, verify_audit
from horae.actions.jobs import endings
from horae.actions.jobs.held_jobs import Ending
from horae.app import Horae
from horae.errors import InvalidInput, LeaseLost, NotAllowed, StoreError
from horae.stores.backup import JUMP
from horae.stores.codecs import Json
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.stores.transfer.export import PAGE, export
from horae.stores.transfer.load import check, load
from horae.stores.transfer.rows import LEFT_OUT, forms
from tests.support.killing import die_before
from tests.support.prepared import mysql_database_url as mysql_database_url
from tests.support.prepared import postgres_database_url as postgres_database_url
from tests.support.prepared import sqlite_database_url as sqlite_database_url
from tests.support.refusals import refused

NOON = "2030-01-07T12:00:00Z"
WAYS = [("sqlite", "postgres"), ("postgres", "mysql"), ("mysql", "sqlite"), ("sqlite", "mysql"), ("postgres", "sqlite")]
Open = Callable[[str], Engine]


@pytest.fixture
def migrated(request: pytest.FixtureRequest) -> Iterator[Open]:
    """``migrated("postgres")``: an engine on an empty database of that kind, with its tables."""
    made: list[Engine] = []

    def engine(kind: str) -> Engine:
        made.append(create_store_engine(request.getfixturevalue(f"{kind}_database_url")))
        migrate(made[-1])
        return made[-1]

    yield engine
    for each in made:
        each.dispose()


def filled(column: Any, index: int) -> Any:
    """A value for a column: strange, and another one in each row."""
    if isinstance(column.type, Json):
        return f'{{"n": {index}, "big": 12345678901234567890, "text": "鸮 \\" \\u0041", "f": 1.0}}'
    if isinstance(column.type, LargeBinary):
        return bytes(range(256)) * (index + 1)
    if isinstance(column.type, SmallInteger):
        return index % 3
    if isinstance(column.type, Integer):
        return index + 1
    if isinstance(column.type, String) and not isinstance(column.type, Text) and column.type.length:
        return f"é{index}"[: column.type.length]
    return f'line {index}\n\t"鸮" \\ {"x" * 300}'


def fill(engine: Engine, count: int = 3) -> None:
    """Put rows into every table that is exported; the last one has NULL wherever it may."""
    with engine.begin() as connection:
        for form in forms().values():
            rows = [{each.name: filled(each, index) for each in form.table.columns} for index in range(count)]
            if form.name == "tasks":  # only a running one has the focus
                rows = [row | {"focus": None} for row in rows]
            rows[-1] |= {each.name: None for each in form.table.columns if each.nullable}
            connection.execute(insert(form.table), rows)


def written(engine: Engine, path: Path) -> list[dict[str, Any]]:
    with path.open("wb") as out:
        export(engine, out, created_at=NOON)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def rows_of(lines: list[dict[str, Any]]) -> set[str]:
    """Rows as they are compared: what an import changes on purpose is left out."""
    found = [(line["table"], dict(line["row"])) for line in lines if "table" in line]
    for table, row in found:
        if table in ("jobs", "lanes"):
            row.pop("leased_until")
        if table == "jobs":
            row["token"] %= JUMP
    return {json.dumps(each, sort_keys=True) for each in found}


def test_every_table_is_exported_or_left_out_for_a_reason() -> None:
    exported = {form.table.name for form in forms().values()}

    assert exported | set(LEFT_OUT) == set(metadata.tables)
    assert exported & set(LEFT_OUT) == set()
    assert all(LEFT_OUT.values())


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_every_row_arrives_in_a_database_of_another_kind(
    source: str, target: str, migrated: Open, tmp_path: Path
) -> None:
    old, new = migrated(source), migrated(target)
    fill(old)
    before = written(old, tmp_path / "before.jsonl")
    load(new, check(tmp_path / "before.jsonl"))
    after = written(new, tmp_path / "after.jsonl")

    assert rows_of(after) == rows_of(before)
    assert len(rows_of(before)) == 3 * len(forms())
    assert after[-1]["counts"] == before[-1]["counts"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_long_tables_are_written_page_by_page_and_none_is_missed(kind: str, migrated: Open, tmp_path: Path) -> None:
    engine, keys = migrated(kind), forms()["keys"].table
    count = 2 * PAGE + 1
    rows = [
        {
            "scope": "key",
            "owner": f"o{index % 3}",
            "name": f"n{index}",
            "job_id": index,
            "request_hash": "",
            "created_at": 1,
        }
        for index in range(count)
    ]
    with engine.begin() as connection:
        connection.execute(insert(keys), rows)
    seen: list[tuple[int, int]] = []
    with (tmp_path / "file").open("wb") as out:
        done = export(engine, out, created_at=NOON, progress=lambda *each: seen.append(each))

    assert (done.counts["keys"], check(tmp_path / "file").counts["keys"]) == (count, count)
    assert seen == [(PAGE, count), (2 * PAGE, count)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_an_export_shows_one_moment_though_others_write(kind: str, migrated: Open, tmp_path: Path) -> None:
    engine = migrated(kind)
    fill(engine)

    class Slow:
        """Somewhere to write to, where others get their turn as soon as the first line is there."""

        def __init__(self) -> None:
            self.lines: list[bytes] = []

        def write(self, data: bytes) -> None:
            if not self.lines:
                with engine.begin() as other:
                    other.execute(insert(forms()["queues"].table).values(name="late", sorting="fifo"))
            self.lines.append(data)

    out = Slow()
    done = export(engine, out, created_at=NOON)

    assert done.counts["queues"] == 3
    assert b"late" not in b"".join(out.lines)


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_runs_that_are_counted_and_about_to_be_dropped_are_not_counted_twice_elsewhere(
    kind: str, migrated: Open, tmp_path: Path
) -> None:
    """Their process died before it dropped the partition; the new database has no such partition to drop."""
    old = migrated(kind)
    tables = {name: form.table for name, form in forms().items()}
    with old.begin() as connection:
        ended = {"token": 1, "outcome": "succeeded", "state": "succeeded", "attempt": 0, "queue": "q", "handler": "h"}
        rows = [{**ended, "owner": "system", "job_id": number, "finished_at": number} for number in (1, 2, 11)]
        connection.execute(insert(tables["runs"]), rows)
        counted = {"scope": "handler", "name": "h", "run_count": 2, "fail_count": 0}
        connection.execute(insert(tables["run_totals"]).values(**counted))
        mark = {"table_name": "horae_runs", "name": "p19700101", "begins_at": 0, "ends_at": 10}
        connection.execute(insert(metadata.tables["horae_counted_partitions"]).values(**mark))
    written(old, tmp_path / "file")
    new = migrated("sqlite")
    load(new, check(tmp_path / "file"))
    with on(new) as app:
        tally = app.world.store.read(lambda tx: tx.schedules.handler_tallies(["h"]))["h"]

    assert tally.run_count == 3


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(migrated: Open, tmp_path: Path) -> Path:
    engine = migrated("sqlite")
    fill(engine)
    written(engine, tmp_path / "file.jsonl")
    return tmp_path / "file.jsonl"


def sealed(lines: list[dict[str, Any]]) -> bytes:
    """Lines with a trailer that fits them."""
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    return body + json.dumps({**lines[-1], "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"


def test_a_damaged_file_is_refused_before_anything_is_written(file: Path) -> None:
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    damages = {
        "export_changed": whole.replace(b"line 1", b"line 7", 1),
        "export_cut_off": b"".join(lines[:-1]),
        "export_goes_on": whole + lines[1],
        "export_line_unreadable": lines[0] + b"{}\n" + b"".join(lines[1:]),
        "export_not_ours": b"SQLite format 3\0",
    }
    for reason, data in damages.items():
        file.write_bytes(data)
        with refused(InvalidInput, reason):
            check(file)
    file.write_bytes(b"")
    with refused(InvalidInput, "export_cut_off"):
        check(file)


def test_what_a_newer_release_wrote_is_refused_in_words(file: Path) -> None:
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    head, row, *rest = lines
    body = next(number for number, each in enumerate(lines) if each.get("table") == "checkpoints")
    spoilt = {**lines[body], "row": {**lines[body]["row"], "body": "no base64"}}
    newer = {
        "export_bytes_unreadable": [*lines[:body], spoilt, *lines[body + 1 :]],
        "export_too_new": [{**head, "horae_export": 2}, row, *rest],
        "export_table_unknown": [head, {**row, "table": "futures"}, *rest],
        "export_field_unknown": [head, {**row, "row": {**row["row"], "mood": 1}}, *rest],
        "export_field_missing": [head, {**row, "row": {}}, *rest],
        "export_counts_differ": [head, *rest],
    }
    for reason, changed in newer.items():
        file.write_bytes(sealed(changed))
        with refused(InvalidInput, reason):
            check(file)


def test_what_an_older_release_did_not_write_has_its_default(file: Path, migrated: Open, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    for line in lines:
        if line.get("table") == "jobs":
            for name in ("rerun_of", "held", "linked"):
                del line["row"][name]
    file.write_bytes(sealed(lines))
    engine = migrated("postgres")
    load(engine, check(file))
    jobs = forms()["jobs"].table
    with engine.connect() as connection:
        found = connection.execute(select(jobs.c.rerun_of, jobs.c.held, jobs.c.linked)).all()

    assert set(map(tuple, found)) == {(None, "", 0)}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_a_database_with_rows_is_refused(kind: str, file: Path, migrated: Open, tmp_path: Path) -> None:
    engine = create_store_engine(f"sqlite:///{tmp_path}/other.db") if kind == "sqlite" else migrated(kind)
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(insert(forms()["queues"].table).values(name="mine", sorting="fifo"))
    with refused(NotAllowed, "import_not_empty"):
        load(engine, check(file))
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM horae_jobs")).scalar() == 0
    engine.dispose()


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_an_import_that_dies_in_the_middle_leaves_nothing_and_can_be_repeated(
    kind: str, file: Path, migrated: Open
) -> None:
    engine, checked = migrated(kind), check(file)

    def die(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(engine, checked, progress=die)
    with engine.begin() as connection:
        assert all(connection.execute(select(form.table)).first() is None for form in forms().values())
    load(engine, checked)
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM horae_jobs")).scalar() == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mysql"])
def test_an_import_that_is_killed_leaves_nothing_and_can_be_repeated(
    kind: str, file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other = f"sqlite:///{tmp_path}/killed.db"
    url: str = other if kind == "sqlite" else request.getfixturevalue(f"{kind}_database_url")
    engine, checked = create_store_engine(url), check(file)
    migrate(engine)
    deaths = 0
    engine.dispose()
    while not die_before(deaths, url, lambda own: load(own, checked)):
        deaths += 7  # a few of some hundred statements
        with engine.begin() as connection:
            assert all(connection.execute(select(form.table)).first() is None for form in forms().values())
        engine.dispose()

    assert deaths > 20
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM horae_jobs")).scalar() == 3
    engine.dispose()


def test_a_text_that_this_database_cannot_keep_is_refused_and_nothing_is_written(file: Path, migrated: Open) -> None:
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    for line in lines:
        if line.get("table") == "jobs":
            line["row"]["cancel_reason"] = "x" * 100_000
    file.write_bytes(sealed(lines))
    engine = migrated("mysql")
    with refused(StoreError, "import_row_refused", table="jobs"):
        load(engine, check(file))
    with engine.begin() as connection:
        assert all(connection.execute(select(form.table)).first() is None for form in forms().values())


# -- what the rows mean ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), WAYS[:3])
def test_work_goes_on_in_the_other_database(source: str, target: str, migrated: Open, tmp_path: Path) -> None:
    """Numbers, tokens and chains stay valid: nothing that the old database handed out counts twice."""
    old, new = migrated(source), migrated(target)
    with on(old) as app:
        first = app.jobs.enqueue("a", {"x": 1}, key="once", concurrency_key="k")
        app.jobs.enqueue("a", {"x": 2}, concurrency_key="k")
        app.schedules.create("nightly", handler="a", cron="0 3 * * *")
        app.queues.pause("slow", reason="mending")
        held = app.jobs.claim("w1", limit=1)[0]
        seal_all(app.world)
    lines = written(old, tmp_path / "file")
    running = load(new, check(tmp_path / "file"))
    with on(new) as app:
        while endings.lose_expired(app.world):
            continue
        job = app.jobs.get(first.id)
        again = app.jobs.enqueue("a", {"x": 1}, key="once", concurrency_key="k")
        fresh = app.jobs.enqueue("a", {"x": 3})
        with pytest.raises(LeaseLost):
            endings.ack(app.world, held.id, held.token, owner=None)
        app.queues.resume("slow")
        claimed = app.jobs.claim("w2", limit=5)
        app.jobs.settle([Ending(job_id=each.id, token=each.token, outcome="succeeded") for each in claimed])

        assert (running, held.id, job.state, job.attempt) == (1, first.id, "queued", 1)
        assert (again.id, again.deduplicated) == (first.id, True)
        assert int(fresh.id.removeprefix("job_")) > JUMP
        assert [each.token > JUMP for each in claimed if each.id != fresh.id] == [True]
        assert app.schedules.get("nightly").handler == "a"
        assert [each.complaints for each in verify_audit(app.world)] == [()]
    assert lines[0]["numbers"]["jobs"] >= 2


def on(engine: Engine) -> Horae:
    return Horae(engine.url.render_as_string(hide_password=False))
