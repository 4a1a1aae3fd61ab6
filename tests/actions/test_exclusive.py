"""One running instance at a time, and a way past one that has fallen silent: S4-21 to S4-24."""

from datetime import timedelta

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.requests import Enqueued
from horae.actions.schedules.exclusive import start_exclusively
from horae.core.jobs.job import Job, Lease
from horae.errors import AlreadyRunning, InvalidInput, LeaseLost
from horae.ports.world import World
from horae.testing.builders import a_request
from horae.testing.clock import VirtualClock
from horae.testing.conformance.support import at_once
from tests.support.refusals import refused

TEN_MINUTES = timedelta(minutes=10)
LONG = timedelta(hours=9)


def start(world: World, key: str = "sync", **fields: object) -> Enqueued:
    return start_exclusively(world, a_request(concurrency_key=key, **fields), stale_timeout=TEN_MINUTES)


def pull(world: World) -> Job:
    [job] = claims.pull(world, worker_id="w", lease=LONG)
    return job


def test_the_first_one_starts(world: World) -> None:
    started = start(world)

    assert pull(world).id == started.id


def test_a_lively_one_is_not_disturbed_and_named_to_the_newcomer(world: World, clock: VirtualClock) -> None:
    started = start(world)
    job = pull(world)
    clock.advance(TEN_MINUTES)
    claims.progress(world, Lease(job.number, job.token), {"batch": 1})
    clock.advance(TEN_MINUTES)

    with pytest.raises(AlreadyRunning) as refused:
        start(world)

    assert refused.value.job_id == started.id
    assert endings.ack(world, job.id, job.token).state == "succeeded"


def test_one_that_still_waits_for_a_worker_counts_as_started(world: World) -> None:
    """Two clicks on the button are one sync."""
    started = start(world)

    with pytest.raises(AlreadyRunning) as refused:
        start(world)

    assert refused.value.job_id == started.id
    assert len(jobs.find(world)) == 1


def test_of_many_who_start_at_the_same_moment_one_does(world: World) -> None:
    def attempt(_: int) -> str:
        try:
            return start(world).id
        except AlreadyRunning:
            return "refused"

    assert sorted(at_once(4, attempt)) == ["job_1", "refused", "refused", "refused"]


def test_a_silent_one_is_closed_as_lost_and_the_newcomer_goes_on_from_its_checkpoint(
    world: World, clock: VirtualClock
) -> None:
    start(world)
    silent = pull(world)
    claims.checkpoint(world, Lease(silent.number, silent.token), {"page": 7})
    clock.advance(TEN_MINUTES + timedelta(microseconds=1))

    started = start(world)

    [run] = jobs.runs(world, silent.id)
    assert (run.outcome, "no progress" in (run.error or "")) == ("lost", True)
    with pytest.raises(LeaseLost):
        endings.ack(world, silent.id, silent.token)
    heir = pull(world)
    assert (heir.id, heir.checkpoint) == (started.id, {"page": 7})


def test_whoever_brings_a_checkpoint_keeps_it(world: World, clock: VirtualClock) -> None:
    start(world)
    silent = pull(world)
    claims.checkpoint(world, Lease(silent.number, silent.token), {"page": 7})
    clock.advance(LONG)

    start(world, checkpoint={"page": 1})

    assert pull(world).checkpoint == {"page": 1}


def test_after_the_end_of_one_the_next_may_start(world: World) -> None:
    start(world)
    job = pull(world)
    endings.ack(world, job.id, job.token)

    assert start(world).id != job.id


def test_another_key_is_another_matter(world: World) -> None:
    start(world)

    assert start(world, "other").id == "job_2"


def test_without_a_key_there_is_nothing_to_exclude(world: World) -> None:
    with refused(InvalidInput, "concurrency_key_missing"):
        start_exclusively(world, a_request(), stale_timeout=TEN_MINUTES)
