"""Clocks that are wrong, and clocks that are set: nobody fires early, steals a lease, or keeps one for ever."""

import signal
import time
from datetime import timedelta

import pytest

from tests.journeys.conftest import STEADY, Journey, Member, until_renewed
from tests.support.waiting import wait_until

HOUR = 3600.0


@pytest.mark.parametrize("skew", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_a_worker_with_a_wrong_clock_starts_jobs_when_they_are_due_by_the_database(
    postgres_journey: Journey, skew: float
) -> None:
    journey = postgres_journey
    worker = journey.worker(skew=skew, lease=20.0)

    enqueued_at = time.time()
    (job,) = journey.app.enqueue_many([journey.brief(1, delay=timedelta(seconds=2))])
    journey.acknowledged.append(job.job.number)
    ran = worker.until("ran")

    assert ran.at - enqueued_at >= 1.9
    assert ran.at - enqueued_at < 60
    journey.until_done()
    assert journey.complaints() == []  # among other things: never early, by the database's time


def test_a_worker_with_a_fast_clock_does_not_take_a_living_workers_job_away(postgres_journey: Journey) -> None:
    journey = postgres_journey
    holder = journey.worker(lease=5.0)
    job = journey.enqueue("gated", gate="gate")
    holder.until("started")

    hasty = journey.worker(skew=HOUR, lease=5.0)
    wait_until(lambda: has_run_one_of(journey, hasty), "a job in the process with the fast clock")  # so it has looked
    journey.open("gate")
    journey.until_done()

    assert [run.outcome for run in journey.runs(job)] == ["succeeded"]
    assert [effect.pid for effect in journey.ran("started")] == [holder.pid]
    assert journey.complaints() == []


def has_run_one_of(journey: Journey, member: Member) -> bool:
    """Give both processes something to do, of which one may take all, until this one has done something."""
    journey.enqueue_brief(5)
    return any(effect.pid == member.pid for effect in journey.ran("ran"))


# -- one file, two processes, and somebody sets the clock of their host ------------------------------------------------

STEPS = pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["ahead", "back"])


@STEPS
def test_a_clock_that_is_set_while_a_job_runs_takes_it_from_nobody(sqlite_journey: Journey, step: float) -> None:
    journey = sqlite_journey
    holder = journey.worker(skew=0, lease=6.0)
    job = journey.enqueue("gated", gate="gate")
    holder.until("started")
    journey.set_clock(step)
    heir = journey.worker(skew=0, lease=6.0)
    until_renewed(journey, job.id, times=4)  # each comes after a third of the lease
    journey.set_clock(0)
    until_renewed(journey, job.id, times=2)

    journey.open("gate")
    journey.until_done([job])

    assert [run.outcome for run in journey.runs(job)] == ["succeeded"]
    assert journey.app.get(job.id).result == holder.pid
    assert heir.end() == {}


@STEPS
def test_a_clock_that_is_set_does_not_keep_a_dead_workers_job_from_being_handed_on(
    sqlite_journey: Journey, step: float
) -> None:
    journey = sqlite_journey
    holder = journey.worker(skew=0, lease=3.0)
    job = journey.enqueue("gated", gate="gate")
    holder.until("started")
    heir = journey.worker(skew=0, lease=STEADY)

    journey.set_clock(step)
    holder.send(signal.SIGKILL)
    heir.until("started")
    journey.open("gate")
    journey.until_done([job])

    assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
    assert journey.app.get(job.id).result == heir.pid
