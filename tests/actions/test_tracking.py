"""Runs of code that Horae does not schedule: S4-14, S4-15."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn

import pytest

from horae.actions.jobs import claims, endings, jobs, outside_runs
from horae.actions.schedules import schedules
from horae.actions.schedules.fires import fire_due, trigger
from horae.core.jobs.job import Filter, Outcome
from horae.core.schedules.schedule import Schedule
from horae.declare.tracker import ExecutionTracker
from horae.errors import LeaseLost, StoreUnavailable
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class App:
    world: World


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def runs(world: World) -> list[tuple[str, str, str | None]]:
    """Handler, outcome and error of every tracked run, the oldest first."""
    found = jobs.find(world, Filter(queue=outside_runs.TRACKED_QUEUE))
    return [(run.handler, run.outcome, run.error) for job in reversed(found) for run in jobs.runs(world, job.id)]


def test_work_that_ends_well_is_recorded_with_its_times(world: World, clock: VirtualClock) -> None:
    with ExecutionTracker(App(world), "sync_daily", payload={"day": 7}) as tracker:
        assert runs(world) == [("sync_daily", "running", None)]
        clock.advance(timedelta(seconds=9))

    assert tracker.job is not None
    [run] = jobs.runs(world, tracker.job.id)
    assert (run.outcome, run.started_at, run.finished_at) == ("succeeded", NOON, NOON + timedelta(seconds=9))
    assert jobs.get(world, tracker.job.id).payload == {"day": 7}


def test_work_that_fails_is_recorded_with_type_and_message_and_still_fails(world: World) -> None:
    with pytest.raises(KeyError), ExecutionTracker(App(world), "sync"):
        raise KeyError("token")

    assert runs(world) == [("sync", "failed", "KeyError: 'token'")]


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ValueError("nul \x00 and lone \ud800"), "ValueError: nul \ufffd and lone ?"),
        (Unspeakable(), "Unspeakable: (it cannot be put into words)"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
    ],
    ids=["hostile", "unspeakable", "interrupted"],
)
def test_whatever_it_raises_is_recorded_and_reaches_the_caller_unchanged(
    world: World, error: BaseException, result: str
) -> None:
    with pytest.raises(type(error)) as raised, ExecutionTracker(App(world), "sync"):
        raise error

    assert raised.value is error
    assert runs(world) == [("sync", "failed", result)]


async def test_it_works_around_async_code_too(world: World) -> None:
    async with ExecutionTracker(App(world), "sync"):
        assert runs(world) == [("sync", "running", None)]
    with pytest.raises(ValueError, match="Boom"):
        async with ExecutionTracker(App(world), "sync"):
            raise ValueError("Boom")

    assert runs(world) == [("sync", "succeeded", None), ("sync", "failed", "ValueError: Boom")]


class Broken:
    """A store that does not answer."""

    def __init__(self, store: Any, after: int) -> None:
        self._store, self._left = store, after

    def __getattr__(self, name: str) -> Any:
        if self._left < 1:
            return self._refuse
        self._left -= 1
        return getattr(self._store, name)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreUnavailable("gone")


@pytest.mark.parametrize("answers", [0, 1], ids=["at the start", "at the end"])
def test_a_store_that_does_not_answer_never_breaks_the_work(world: World, answers: int) -> None:
    worked = []

    with ExecutionTracker(App(replace(world, store=Broken(world.store, answers))), "sync"):
        worked.append(1)

    assert worked == [1]


def test_a_name_that_cannot_be_recorded_does_not_break_the_work_either(world: World) -> None:
    with ExecutionTracker(App(world), "no such name!") as tracker:
        assert tracker.job is None

    assert runs(world) == []


def test_a_process_that_dies_leaves_a_run_that_is_closed_as_lost(world: World, clock: VirtualClock) -> None:
    job = outside_runs.begin(world, "sync", worker_id="w", lease=HOUR)
    clock.advance(HOUR + timedelta(seconds=1))

    endings.lose_expired(world)

    assert [(handler, outcome) for handler, outcome, _ in runs(world)] == [("sync", "lost")]
    assert jobs.get(world, job.id).state == "cancelled", "it belonged to a process that is gone: nobody tries again"
    with pytest.raises(LeaseLost):
        outside_runs.end(world, job, Outcome("succeeded"))


def test_a_tracked_run_is_never_handed_to_a_worker(world: World, clock: VirtualClock) -> None:
    outside_runs.begin(world, "sync", worker_id="w", lease=HOUR)
    clock.advance(2 * HOUR)

    assert claims.pull(world, worker_id="v", queues=[outside_runs.TRACKED_QUEUE]) == []
    endings.lose_expired(world)
    assert claims.pull(world, worker_id="v", queues=[outside_runs.TRACKED_QUEUE]) == []


def test_the_lease_of_long_work_is_renewed(world: World) -> None:
    """A sync of hours is not lost because it takes hours; waits for the renewal itself, however slow the machine."""
    with ExecutionTracker(App(world), "sync", lease=timedelta(seconds=1)) as tracker:
        assert tracker.job is not None
        renewer = tracker._renewer
        assert renewer is not None
        assert renewer.is_alive()
        assert isinstance(world.clock, VirtualClock)
        world.clock.advance(timedelta(milliseconds=900))
        renewer.step()
        world.clock.advance(timedelta(milliseconds=900))

        assert endings.lose_expired(world) == []

    assert [outcome for _, outcome, _ in runs(world)] == ["succeeded"]
    assert not renewer.is_alive()


# -- what every node runs for itself -----------------------------------------------------------------------------


def on_every_node(world: World, **fields: Any) -> Schedule:
    fields = {"kind": "every", "mode": "ALL_NODES"} | fields
    return schedules.create(world, a_schedule("warm", "60", **fields))


@pytest.mark.parametrize(("ending", "followers"), [("succeeded", ["report"]), ("failed", [])])
def test_a_run_of_a_node_is_followed_when_it_succeeds(world: World, ending: Any, followers: list[str]) -> None:
    """S3-49: whoever runs it, a schedule may run after others succeed."""
    warm = on_every_node(world)
    schedules.create(world, a_schedule("report", "", kind="after", after=("warm",)))

    job = outside_runs.begin(world, "greet", worker_id="w", schedule=warm, fire_at=NOON)
    outside_runs.end(world, job, Outcome(ending))

    assert [firing.schedule.key for firing, _ in fire_due(world)] == followers


def test_the_end_of_a_run_gives_a_schedule_of_every_node_no_fire_in_the_store(world: World) -> None:
    """S3-4: its timers count for themselves; one fire in the store would run it a second time somewhere."""
    warm = on_every_node(world, anchor="finish")
    schedules.create(world, a_schedule("report", "", kind="after", after=("warm",)))
    trigger(world, "warm")
    [by_hand] = claims.pull(world, worker_id="w")
    endings.settle(world, [(by_hand, Outcome("succeeded"))])
    job = outside_runs.begin(world, "greet", worker_id="w", schedule=warm, fire_at=NOON)
    outside_runs.end(world, job, Outcome("succeeded"))

    assert schedules.get(world, "warm").next_fire_at is None
