"""What a worker counts of its own work."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from horae import Horae, Retry
from horae.core.jobs.job import Job
from horae.core.metrics import MOST, OTHER, Family, Spread
from horae.runtime.worker.metrics import DELAYS, Measures
from horae.testing.clock import NOON, VirtualClock
from tests.runtime.serving import ended, serving
from tests.support.waiting import eventually

JOB = Job(1, "greet", {}, "running", "default", "medium", NOON, NOON, NOON)


def answer(measures: Measures, name: str) -> Family:
    return next(family for family in measures.families() if family.name == name)


def test_delays_fall_into_the_bucket_whose_bound_they_do_not_exceed() -> None:
    measures, clock = Measures(), VirtualClock(NOON)
    clock.advance(timedelta(milliseconds=5))
    measures.count_started([JOB, replace(JOB, run_at=NOON - timedelta(days=1))], clock)
    spread = answer(measures, "horae_start_delay_seconds").points["default",]
    assert isinstance(spread, Spread)
    assert (spread.counts[0], spread.counts[-1], sum(spread.counts)) == (1, 1, 2)
    assert spread.bounds == DELAYS
    assert round(spread.total, 6) == 86400.01


def test_more_handlers_than_the_bound_are_counted_together() -> None:
    """Labels are bounded: whoever invents handlers cannot make the list of series grow."""
    measures = Measures()
    for number in range(MOST * 3):
        job = replace(JOB, handler=f"h{number}")
        measures.count_duration(job, "succeeded", 0.1)
        measures.count_ended(job, "succeeded")
        measures.count_ended(job, "stale")
    runs = answer(measures, "horae_runs_total")
    assert len(runs.points) == MOST + 1
    assert runs.points[OTHER, OTHER, "succeeded"] == MOST * 2
    assert len(answer(measures, "horae_run_duration_seconds").points) == MOST + 1
    assert measures.counts == {"succeeded": MOST * 3, "stale": MOST * 3}


def test_what_was_put_off_has_no_duration() -> None:
    measures = Measures()
    measures.count_duration(JOB, "snoozed", 0.0)
    assert answer(measures, "horae_run_duration_seconds").points == {}


async def test_a_worker_tells_how_its_runs_ended_and_what_they_took(app: Horae) -> None:
    async def work(fails: bool) -> None:
        await asyncio.sleep(0)
        if fails:
            raise ValueError("no")

    handle = app.job("work", retry=Retry.none())(work)
    jobs = [handle.enqueue(fails=n == 0) for n in range(3)]
    async with serving(app) as worker:
        for job in jobs:
            await ended(app, job)
    runs = answer(worker.measures, "horae_runs_total").points
    assert runs == {("default", "work", "succeeded"): 2.0, ("default", "work", "failed"): 1.0}
    spread = answer(worker.measures, "horae_run_duration_seconds").points["default", "work"]
    assert isinstance(spread, Spread)
    assert sum(spread.counts) == 3
    assert worker.counts == {"succeeded": 2, "failed": 1}


async def test_a_worker_tells_of_lost_leases_and_of_endings_that_came_too_late(app: Horae) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await gate.wait()

    job = app.job("work")(work).enqueue()
    async with serving(app) as worker:
        await begun.wait()
        held = app.get(job.id)
        worker._stop_attempt((job.number, held.token), "lost")
        await eventually(lambda: worker.counts["lost"])
    assert answer(worker.measures, "horae_lease_losses_total").points == {("default", "work"): 1.0}
    assert answer(worker.measures, "horae_stale_acks_total").points == {("worker",): 0.0}
