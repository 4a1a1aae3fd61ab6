"""What handlers log is kept with the ending of their attempt: bounded, masked, and for as long as the run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.held_jobs import Ending, settle_held
from horae.actions.jobs.lines import read_lines
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean
from horae.clock import SystemDice
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.lines import LONGEST, MOST_BYTES, MOST_LINES, Lines, LogLine, bound, log_line
from horae.errors import NotFound
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import NOON, VirtualClock


def held(world: World, owner: str = "system", **payload: str) -> Job:
    jobs.enqueue_many(world, [Request("a", payload, owner=owner)])
    return claims.pull(world, worker_id="w", limit=1, owner=None if owner == "system" else owner)[0]


def said(*texts: str) -> Lines:
    return Lines(tuple(LogLine(NOON, "INFO", text) for text in texts))


@pytest.fixture
def each_world(database_url: str, clock: VirtualClock) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store = open_store(engine)
    yield World(store, clock, SystemDice())
    store.close()


def test_lines_are_written_with_the_ending_and_read_by_attempt(each_world: World, clock: VirtualClock) -> None:
    world = each_world
    job = held(world)
    endings.settle(world, [(job, Outcome("failed", error="E: x", lines=said("one", "二")))])
    clock.advance(timedelta(days=1))
    (again,) = claims.pull(world, worker_id="w", limit=1)
    endings.settle(world, [(again, Outcome("succeeded", lines=Lines((LogLine(NOON, "ERROR", "x"),), 3)))])

    first, second = read_lines(world, job.id)
    assert (first.token, first.attempt, [line.text for line in first.lines]) == (job.token, 1, ["one", "二"])
    assert (second.attempt, second.lines, second.dropped) == (2, (LogLine(NOON, "ERROR", "x"),), 3)


def test_a_refused_ending_leaves_no_line(world: World) -> None:
    job = held(world)
    endings.release(world, job.id, job.token)

    assert endings.settle(world, [(job, Outcome("succeeded", lines=said("late")))]) == {job.id: None}
    assert read_lines(world, job.id) == []


def test_another_tenant_sees_no_line(world: World) -> None:
    job = held(world, owner="alice")
    endings.settle(world, [(job, Outcome("succeeded", lines=said("mine")))])

    assert len(read_lines(world, job.id, owner="alice")) == 1
    with pytest.raises(NotFound):
        read_lines(world, job.id, owner="bob")


def test_lines_go_with_their_run(each_world: World, clock: VirtualClock) -> None:
    world = each_world
    job = held(world)
    endings.settle(world, [(job, Outcome("failed", error="E: x", final=True, lines=said("one")))])
    clock.advance(timedelta(days=400))
    while any(clean(world, Retention()).values()):
        continue

    assert jobs.get(world, job.id).state == "dead"
    assert read_lines(world, job.id) == []


def test_lines_of_a_worker_without_a_database_are_masked_and_cut_and_never_refused(world: World) -> None:
    job = held(world, password="hunter22")
    lines = tuple(LogLine(NOON, "LOUD", f"{number} hunter22 \x00 \ud800") for number in range(MOST_LINES + 5))
    (answer,) = settle_held(world, [Ending(job.id, job.token, "succeeded", lines=lines, lines_dropped=2)])

    assert answer.accepted
    (found,) = read_lines(world, job.id)
    assert (len(found.lines), found.dropped) == (MOST_LINES, 7)
    assert found.lines[-1].level == "INFO"
    assert found.lines[-1].text == f"{MOST_LINES + 4} … \ufffd ?"


def test_the_last_lines_are_kept_up_to_a_number_and_a_size() -> None:
    many = [LogLine(NOON, "INFO", str(number)) for number in range(MOST_LINES + 1)]
    assert (bound(many).lines[0].text, bound(many).dropped) == ("1", 1)
    large = [log_line(NOON, "INFO", "长" * (LONGEST + 1))] * 9
    kept = bound(large, 1)
    assert sum(line.size for line in kept.lines) <= MOST_BYTES
    assert (len(kept.lines) + kept.dropped, large[0].text.endswith("(cut)")) == (10, True)
