"""``horae errors``: failures by cause, and their dead jobs revived by a bulk act."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae import Horae
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.requests import Request
from horae.actions.roll_up import roll_up
from horae.clock import SystemDice
from horae.core.jobs.retry import Retry
from horae.ports.world import World
from horae.testing.clock import VirtualClock
from tests.cli.conftest import Command


@pytest.fixture
def app(horae: Command) -> Iterator[Horae]:
    """Two dead jobs with one cause, and one with another; their errors are grouped."""
    horae("db", "migrate")
    with Horae("sqlite:///.horae/horae.db") as app:
        for error in ("KeyError: 'a'", "KeyError: 'b'", "TypeError: other"):
            jobs.enqueue(app.world, Request("pay", retry=Retry.none()))
            [job] = claims.pull(app.world, worker_id="w")
            endings.fail(app.world, job.id, job.token, error)
        later = World(app.world.store, VirtualClock(app.world.clock.now() + timedelta(minutes=3)), SystemDice())
        while roll_up(later):
            continue
        yield app


def test_the_dead_jobs_of_a_group_are_revived_by_an_act(app: Horae, horae: Command) -> None:
    groups = {each["kind"]: each["fingerprint"] for each in horae("errors", "list", "--json").json["items"]}
    would = horae("errors", "retry", groups["KeyError"], "--dry-run")
    begun = horae("errors", "retry", groups["KeyError"], "--reason", "fixed", "--json")
    while serve_due(app.world, "w"):
        continue

    assert "would revive 2 jobs; nothing was changed" in would.out
    assert (begun.code, begun.json["verb"], begun.json["matched"]) == (0, "revive", 2)
    assert [app.jobs.get(f"job_{number}").state for number in (1, 2, 3)] == ["queued", "queued", "dead"]
    assert "is done: 2 of 2 jobs, 0 skipped" in horae("act", "wait", begun.json["id"]).out
    listed = horae("job", "list", "--where", f"fingerprint:{groups['TypeError']}", "--json")
    assert [each["id"] for each in listed.json["items"]] == ["job_3"]


def test_an_unknown_group_is_refused(app: Horae, horae: Command) -> None:
    horae("errors", "retry", "0" * 32, "--json").assert_refused(3, "error_group_unknown")
    horae("errors", "retry", "0" * 32, "--dry-run", "--json").assert_refused(3, "error_group_unknown")
