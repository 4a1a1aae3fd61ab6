"""Workers are killed at the worst moments; nothing is lost, every attempt is counted, somebody else finishes."""

import signal
from collections import Counter
from datetime import datetime, timedelta

import pytest

from horae.actions.jobs.requests import Enqueued
from tests.journeys.conftest import LEASE, STEADY, Journey
from tests.support.waiting import wait_until

ONE_LEASE = timedelta(seconds=LEASE)
TWO_LOOKS = timedelta(seconds=1)  # the lease is counted on a clock that a claim has read before, on a busy machine
POLL = timedelta(seconds=1)
SLACK = timedelta(seconds=20)  # for a busy machine; whoever waits for the next slow look takes 60 seconds


def taken_over_in_time(journey: Journey, job: Enqueued) -> None:
    """The second attempt began at most one lease and one look after the first one's lease could last be renewed."""
    lost, done = journey.runs(job)
    assert lost.started_at is not None
    assert lost.finished_at is not None
    assert done.started_at is not None
    assert lost.finished_at <= done.started_at
    assert lost.finished_at - lost.started_at >= ONE_LEASE - TWO_LOOKS, "taken away before the lease had run out"
    assert done.started_at - lost.finished_at <= POLL + SLACK


def test_a_worker_killed_in_the_middle_of_a_job_loses_nothing(journey: Journey) -> None:
    doomed = journey.worker()
    jobs = [journey.enqueue("gated", gate="gate") for _ in range(3)]
    doomed.until("started", count=3)
    heir = journey.worker(lease=STEADY)

    killed_at = doomed.send(signal.SIGKILL)
    heir.until("started", count=3)
    journey.open("gate")
    journey.until_done(jobs)

    for job in jobs:
        assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
        assert (journey.app.get(job.id).attempt, journey.app.get(job.id).result) == (1, heir.pid)
        taken_over_in_time(journey, job)
        began = journey.runs(job)[1].started_at
        assert began is not None
        assert began - datetime.fromtimestamp(killed_at, began.tzinfo) <= ONE_LEASE + POLL + SLACK
    assert journey.complaints() == []


@pytest.mark.parametrize("point", ["run.before", "settle.before", "settle.after"])
def test_a_worker_killed_between_two_steps_loses_nothing(journey: Journey, point: str) -> None:
    journey.enqueue_brief(3)
    doomed = journey.worker(fault=f"{point}:kill:1", ready=False)
    assert doomed.wait() == -signal.SIGKILL
    before = Counter(effect.job for effect in journey.ran())

    journey.worker(lease=STEADY)
    journey.until_done()

    after = Counter(effect.job for effect in journey.ran()) - before
    ended_before = {job for job in journey.acknowledged if after[job] == 0}
    assert journey.complaints() == []
    assert all(after[job] <= 1 for job in journey.acknowledged)
    assert all(before[job] + after[job] >= 1 for job in journey.acknowledged)
    assert bool(before) == (point.startswith("settle"))  # the fault struck where it was meant to
    assert bool(ended_before) == (point == "settle.after")  # only what was committed is not run again


def test_a_job_whose_every_worker_dies_ends_dead_with_the_reason_and_the_queue_goes_on(journey: Journey) -> None:
    poison = journey.enqueue("brief", number=1)
    for attempt in range(1, 4):
        doomed = journey.worker(fault="run.before:kill:1", ready=False)
        assert doomed.wait() == -signal.SIGKILL
        assert journey.app.get(poison.id).attempt == attempt - 1

    survivor = journey.worker(lease=STEADY)
    other = journey.enqueue("brief", number=2)
    journey.until_done([poison, other])

    dead = journey.app.get(poison.id)
    assert (dead.state, dead.attempt) == ("dead", 3)
    assert (dead.last_error or "").startswith("worker_died_3_times")
    assert journey.app.get(other.id).state == "succeeded"
    assert [effect.job for effect in journey.ran()] == [other.job.number]
    assert survivor.end() == {"succeeded": 1}
    assert journey.complaints() == []


def test_workers_killed_again_and_again_under_load_still_finish_every_job(journey: Journey) -> None:
    journey.enqueue_brief(300)
    doomed = [journey.worker(fault=f"settle.before:kill:{count}", ready=False) for count in (1, 3)]
    for member in doomed:
        member.wait()
    steady = journey.worker(lease=STEADY)
    wait_until(lambda: journey.live() == 0, "the end of all jobs")

    assert steady.process.poll() is None
    assert {effect.job for effect in journey.ran()} == set(journey.acknowledged)
    assert journey.complaints() == []
