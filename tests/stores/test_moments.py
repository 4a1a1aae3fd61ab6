"""Whatever is put together from several statements shows one moment, on all three databases."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from horae.actions import metrics, scheduled_tasks
from horae.actions.attention import events, inbox, journal, lanes, queries, turns
from horae.actions.jobs import jobs, queues
from horae.actions.schedules import declared as declaring
from horae.actions.schedules import schedules
from horae.actions.schedules.declared import Plan
from horae.actions.schedules.forecast import forecast
from horae.core.attention.directives import Wait
from horae.core.attention.task import Control, Policy
from horae.errors import StoreError
from horae.ports.store import Tx
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import a_new_job, a_schedule
from horae.testing.clock import LoadedDice, VirtualClock
from horae.testing.conformance.support import put

LANE = "ops"


@pytest.fixture
def world(store: SqlStore) -> World:
    return World(store, VirtualClock(), LoadedDice())


@pytest.fixture
def other(open_another: Callable[[], SqlStore]) -> World:
    """The same database, as another process has it open."""
    return World(open_another(), VirtualClock(), LoadedDice())


def count(world: World) -> int:
    return sum(jobs.counts(world).get("default", {}).values())


def test_two_statements_of_one_look_see_the_same(world: World, other: World) -> None:
    put(world.store, a_new_job())

    def look(tx: Tx) -> list[int]:
        before = sum(tx.jobs.counts(None, None, now=world.clock.now()).values())
        put(other.store, a_new_job())
        return [before, sum(tx.jobs.counts(None, None, now=world.clock.now()).values())]

    assert world.store.read(look) == [1, 1]
    assert count(world) == 2


def test_all_looks_of_a_moment_see_the_same_and_the_next_ones_what_is_there_now(world: World, other: World) -> None:
    with world.store.moment():
        before = count(world)
        put(other.store, a_new_job())
        with world.store.moment():  # one inside another is the same
            assert count(world) == before
        assert count(world) == before

    assert count(world) == before + 1


def test_a_look_that_fails_spoils_no_other_of_its_moment(world: World) -> None:
    put(world.store, a_new_job())
    with world.store.moment():
        assert count(world) == 1
        with pytest.raises(StoreError):
            world.store.read(lambda tx: tx.connection.execute(text("SELECT nothing FROM nowhere")))

        assert count(world) == 1


def test_a_moment_gives_its_connection_back(world: World) -> None:
    for _ in range(30):  # more than there are connections
        with world.store.moment():
            count(world)

    assert world.store.engine.pool.checkedout() <= 1  # type: ignore[attr-defined]  # SQLite keeps one for writing


# -- pictures ----------------------------------------------------------------------------------------------------------


@contextmanager
def between(world: World, table: str, act: Callable[[], object]) -> Iterator[None]:
    """Let something happen as soon as this world has read from a table, once."""
    engine, left = world.store.engine, [act]  # type: ignore[attr-defined]

    def read(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if left and f"FROM {table}" in statement:
            left.pop()()

    event.listen(engine, "after_cursor_execute", read)
    try:
        yield
    finally:
        event.remove(engine, "after_cursor_execute", read)
    assert not left, f"{table} was not read"


def test_a_lane_that_works_while_it_is_verified_is_sound(world: World, other: World) -> None:
    inbox.add(world, LANE, "report")
    inbox.add(world, LANE, "report")

    for table in ("horae_lanes", "horae_journal", "horae_tasks"):
        with between(world, table, lambda: inbox.add(other, LANE, "report")):
            found = journal.verify(world, LANE)

        assert found.complaints == ()
    assert journal.verify(world, LANE).lines == journal.verify(other, LANE).lines


def test_a_snapshot_shows_every_wait_with_its_task(world: World, other: World) -> None:
    inbox.add(world, LANE, "report")
    park(world)

    with between(world, "horae_tasks", lambda: events.post(other, LANE, "word", {})):
        seen = lanes.snapshot(world, LANE)

    [(task, waits)] = seen.waiting
    assert [wait.task for wait in waits] == [task.number]
    assert lanes.snapshot(world, LANE).waiting == ()


def park(world: World) -> None:
    """Let the lane's focus wait for a word."""
    drive = lanes.acquire(world, LANE, "driver", lease=timedelta(minutes=1))
    assert drive is not None
    think = turns.next_work(world, drive, Control(), Policy())
    assert isinstance(think, turns.Think)
    turns.commit_turn(world, drive, think, Wait("word", timedelta(hours=1)), policy=Policy(), effects={})
    lanes.let_go(world, drive)


@dataclass(frozen=True)
class Made:
    """What there is to look at."""

    job: str
    task: str


PICTURES: dict[str, Callable[[World, Made], object]] = {
    "a job and its runs": lambda world, made: jobs.runs(world, made.job),
    "the queues": lambda world, _: queues.list_queues(world),
    "the figures": lambda world, _: metrics.survey(world),
    "the forecast": lambda world, _: forecast(world),
    "declared jobs": lambda world, _: declaring.snapshot(world, Plan("app", (a_schedule(),))),
    "the history of a schedule": lambda world, _: schedules.history(world, "minutely"),
    "the versions of a schedule": lambda world, _: schedules.versions(world, "minutely"),
    "a lane": lambda world, _: lanes.snapshot(world, LANE),
    "a journal": lambda world, _: journal.read_journal(world, LANE),
    "a journal verified": lambda world, _: journal.verify(world, LANE),
    "a lane as it was": lambda world, _: journal.at(world, LANE, 1),
    "the tasks of a lane": lambda world, _: queries.find_tasks(world, LANE),
    "a task of a lane": lambda world, made: queries.get_task(world, LANE, made.task),
    "the waits of a lane": lambda world, _: queries.find_waits(world, LANE),
    "the tasks of users": lambda world, _: scheduled_tasks.find(world, owner=None),
}


def test_every_picture_is_read_in_one_transaction(world: World) -> None:
    """Of each, counted in connections asked for: whoever asks twice shows two moments."""
    [number] = put(world.store, a_new_job())
    schedules.create(world, a_schedule())
    made = Made(f"job_{number}", inbox.add(world, LANE, "report").task.id)
    asked: list[object] = []
    event.listen(world.store.engine, "checkout", lambda *_: asked.append(1))  # type: ignore[attr-defined]

    def connections(look: Callable[[World, Made], object]) -> int:
        before = len(asked)
        look(world, made)
        return len(asked) - before

    assert {name: connections(look) for name, look in PICTURES.items()} == dict.fromkeys(PICTURES, 1)
