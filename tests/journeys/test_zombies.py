"""A worker sleeps through its lease and wakes up as a zombie: whatever it says then is refused."""

import signal
from datetime import timedelta

import pytest

from horae.actions.jobs.requests import Enqueued
from tests.journeys.conftest import STEADY, Journey, Member, eventually

KEPT = 6.0  # seconds: a lease that runs out within the test unless it is renewed, and is renewed on a busy machine, too


def test_a_worker_stopped_past_its_lease_cannot_save_renew_or_end_what_another_one_has(journey: Journey) -> None:
    zombie = journey.worker()
    job = journey.enqueue("stubborn", gate="gate")
    zombie.until("started")
    heir = journey.worker(lease=STEADY)

    journey.pause(zombie)
    heir.until("started")
    journey.open("gate")
    journey.until_done([job])
    zombie.send(signal.SIGCONT)
    refused = zombie.until("refused")

    assert "no longer held" in refused.detail
    assert journey.app.get(job.id).result == heir.pid
    counts = zombie.end()
    assert counts.get("lost", 0) + counts.get("stale", 0) == 1
    assert heir.end() == {"succeeded": 1}
    assert journey.app.get(job.id).result == heir.pid
    assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
    assert journey.complaints() == []


def test_a_zombie_that_only_renews_does_not_prolong_the_new_owners_lease(journey: Journey) -> None:
    zombie = journey.worker()
    job = journey.enqueue("gated", gate="gate")
    zombie.until("started")
    heir = journey.worker(lease=STEADY)

    journey.pause(zombie)
    heir.until("started")
    zombie.send(signal.SIGCONT)
    lost = zombie.end()  # it renews first, finds out, and drops the job; its handler never passes the gate
    journey.open("gate")
    journey.until_done([job])

    assert lost == {"lost": 1}
    assert [effect.pid for effect in journey.ran("passed")] == [heir.pid]
    assert (journey.app.get(job.id).result, journey.app.get(job.id).attempt) == (heir.pid, 1)
    assert journey.complaints() == []


def stopped_before_it_could_settle(journey: Journey) -> tuple[Member, Enqueued]:
    """A worker that has run its job and stands still on the way to say so, holding no lock of the database."""
    for _ in range(10):
        job = journey.enqueue("careful", gate="gate")
        zombie = journey.worker(fault="settle.before:stop:1", ready=False)
        zombie.until_stopped()
        if not journey.somebody_writes():
            return zombie, job
        zombie.send(signal.SIGCONT)  # another thread of it was writing; once more
        zombie.end()
    pytest.fail("every worker was stopped in the middle of a transaction")


def test_an_ending_that_comes_while_another_worker_has_the_job_is_refused_and_counted(journey: Journey) -> None:
    """The hardest case: the job runs again, so that only its token can tell the two attempts apart."""
    zombie, job = stopped_before_it_could_settle(journey)
    heir = journey.worker(lease=STEADY)
    heir.until("started")

    zombie.send(signal.SIGCONT)
    assert zombie.end() == {"stale": 1}
    during = journey.app.get(job.id)
    journey.open("gate")
    journey.until_done([job])

    assert (during.state, during.token) == ("running", 3)
    assert journey.app.get(job.id).result == heir.pid
    assert heir.end() == {"succeeded": 1}
    assert [run.outcome for run in journey.runs(job)] == ["lost", "succeeded"]
    assert journey.complaints() == []


def test_a_lease_is_kept_as_long_as_its_worker_lives(journey: Journey) -> None:
    holder = journey.worker(lease=KEPT)
    job = journey.enqueue("gated", gate="gate")
    began = holder.until("started")
    heir = journey.worker(lease=STEADY)

    leased_until = journey.app.get(job.id).leased_until
    assert leased_until is not None
    eventually(
        lambda: (journey.app.get(job.id).leased_until or leased_until) - leased_until > timedelta(seconds=KEPT),
        "renewal",
    )
    journey.open("gate")
    journey.until_done([job])

    assert [effect.pid for effect in journey.ran("started")] == [began.pid]
    assert heir.end() == {}
    assert journey.complaints() == []
