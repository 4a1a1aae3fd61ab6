"""Schedules with real processes: whoever is killed, every due fire is told once, and whatever ran was run.

``HORAE_FULL=1`` runs the size that the promise was made for (see also ``python -m benchmarks.schedules``).
"""

import os
import signal
from collections import Counter
from datetime import timedelta
from typing import Any

from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.core.schedules.schedule import Schedule
from horae.ports.schedules import ScheduleFilter
from horae.testing.builders import a_schedule
from tests.journeys.conftest import Journey
from tests.support.fire_history import Fires, complaints, read_fires
from tests.support.waiting import wait_until

FULL = bool(os.environ.get("HORAE_FULL"))
COUNT = 200 if FULL else 60
LASTS = timedelta(seconds=120 if FULL else 10)
RULES: list[dict[str, Any]] = [
    {"kind": "cron", "expression": "* * * * * *"},
    {"kind": "every", "expression": "1", "overlap": "allow"},
    {"kind": "cron", "expression": "*/2 * * * * *", "zone": "Asia/Shanghai", "overlap": "allow"},
    {"kind": "every", "expression": "1.5", "jitter": timedelta(milliseconds=300)},
    {"kind": "cron", "expression": "*/3 * * * * *", "misfire": "catch_up", "catch_up": 2, "spread": timedelta(0)},
    {"kind": "every", "expression": "2", "overlap": "queue_one"},
]


def crowd(journey: Journey) -> list[Schedule]:
    """So many schedules of all kinds, for a while."""
    ends_at = journey.app.world.clock.now() + LASTS
    return [
        schedules.create(
            journey.app.world,
            a_schedule(f"s{place:03}", handler="brief", payload={"number": place}, ends_at=ends_at, **rule),
        )
        for place in range(COUNT)
        for rule in [RULES[place % len(RULES)]]
    ]


def records(journey: Journey) -> int:
    return sum(len(each.records) for each in read_fires(journey.app.world))


def until_all_is_told(journey: Journey) -> None:
    """Every schedule has come to its end, and so has every job."""

    def at_rest() -> bool:
        waiting = [each for each in schedules.iterate(journey.app.world, ScheduleFilter()) if each.next_fire_at]
        return not waiting and journey.live() == 0

    wait_until(at_rest, "the end of all schedules", within=LASTS.total_seconds() + 60)


def judged(journey: Journey) -> list[Fires]:
    found = read_fires(journey.app.world)
    answer = [line for each in found if each.schedule.ends_at for line in complaints(each, each.schedule.ends_at)]
    assert answer == []
    return found


def test_schedules_fire_once_each_while_workers_are_killed(journey: Journey) -> None:
    """I7, I8, I9, faults 1 and 38."""
    workers = [journey.worker(ready=False, lease=1.0) for _ in range(4 if FULL else 3)]
    for worker in workers:
        worker.until("ready")
    crowd(journey)
    wait_until(lambda: records(journey) > 2 * COUNT or _over(journey), "the first fires")

    for doomed in workers[: len(workers) // 2 + 1]:
        doomed.send(signal.SIGKILL)
    journey.worker(lease=1.0)
    until_all_is_told(journey)

    found = judged(journey)
    verdicts = Counter(record.verdict for each in found for record in each.records)
    assert verdicts["ran"] >= COUNT, verdicts
    effects = {effect.job for effect in journey.ran()}
    ran = {record.job_id for each in found for record in each.records if record.verdict == "ran"}
    lost = ran - effects
    assert all(_was_killed(journey, job) for job in lost), f"{len(lost)} jobs left no trace outside"


def _was_killed(journey: Journey, job: int | None) -> bool:
    """A retry that yielded to the next occurrence, or a run that its killed worker never began."""
    outcomes = [run.outcome for run in verbs.runs(journey.app.world, f"job_{job}")]
    return "lost" in outcomes and outcomes[-1] == "cancelled"


def test_a_scheduler_killed_while_it_fires_leaves_everything_or_nothing(journey: Journey) -> None:
    """Job, record and next instant are one transaction, however it ends."""
    world = journey.app.world
    ends_at = world.clock.now() + timedelta(seconds=6)
    for place in range(150):
        rule = a_schedule(f"s{place:03}", "* * * * * *", handler="brief", ends_at=ends_at, overlap="allow")
        schedules.create(world, rule)
    for _ in range(3):
        doomed = journey.worker(ready=False, queues={"nothing": 1})
        before = records(journey)
        wait_until(lambda before=before: records(journey) > before or _over(journey), "a fire")  # type: ignore[misc]
        doomed.send(signal.SIGKILL)
    journey.worker()
    until_all_is_told(journey)

    judged(journey)


def _over(journey: Journey) -> bool:
    return not any(each.next_fire_at for each in schedules.iterate(journey.app.world, ScheduleFilter()))


def test_a_schedule_made_elsewhere_wakes_the_sleepers(journey: Journey) -> None:
    """Nobody polls for it: a worker that has seen nothing due hears of a new fire."""
    worker = journey.worker()
    soon = journey.app.world.clock.now() + timedelta(seconds=1)
    schedules.create(journey.app.world, a_schedule("soon", soon.isoformat(), kind="once", handler="brief"))

    worker.until("ran")
    journey.until_done()

    [fires] = read_fires(journey.app.world)
    assert complaints(fires, soon) == []


def test_a_trigger_from_outside_runs_while_the_rhythm_goes_on(journey: Journey) -> None:
    worker = journey.worker()
    world = journey.app.world
    ends_at = world.clock.now() + timedelta(seconds=3)
    schedules.create(world, a_schedule("s", "1", kind="every", handler="brief", ends_at=ends_at, overlap="allow"))

    triggered = [firing.trigger(world, "s", {"number": 1000 + place}).job_id for place in range(5)]
    until_all_is_told(journey)

    assert all(triggered)
    ran = [effect.detail for effect in journey.ran() if effect.pid == worker.pid]
    assert sorted(detail for detail in ran if detail >= 1000) == [1000, 1001, 1002, 1003, 1004]
    [fires] = read_fires(world)
    assert complaints(fires, ends_at) == []
