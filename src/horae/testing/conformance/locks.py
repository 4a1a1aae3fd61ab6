"""What every store must know of occurrences that wait for their lock (decision 0080)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from horae.actions.jobs import endings
from horae.actions.jobs import jobs as verbs
from horae.actions.schedules import fires, schedules
from horae.actions.schedules.occurrences import is_over, occurrences_of, put_back
from horae.core.jobs.job import Job
from horae.core.jobs.locks import LOCK, LockHolder
from horae.core.jobs.retry import Retry
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import VirtualClock
from horae.testing.conformance.support import take
from horae.testing.conformance.world import InVirtualTime, job_of, run, verdicts

MINUTE = timedelta(minutes=1)
KEY = "job:minutely"


class LockConformance(InVirtualTime):
    """Put back for a lock, replaced by the next occurrence, recorded as what it was."""

    def _put_back(self, world: World) -> Job:
        """Claim the next due job, and put it back because its lock is held."""
        [job] = take(world.store, 1, now=world.clock.now())
        endings.settle(world, [(job, put_back(world, job, KEY, None, world.clock.now()))])
        return verbs.get(world, job.id)

    @pytest.mark.parametrize("overlap", ["skip", "queue_one"])
    def test_a_job_that_waits_for_its_lock_yields_to_the_next_occurrence(
        self, world: World, clock: VirtualClock, overlap: str
    ) -> None:
        schedules.create(world, a_schedule("minutely", overlap=overlap))
        clock.advance(MINUTE)
        fires.fire_due(world)
        waits = self._put_back(world)
        assert (waits.state, waits.attempt, waits.held, waits.held_for) == ("queued", 0, "", LOCK)
        assert not occurrences_of(world, [waits])[0].is_replaced

        clock.advance(MINUTE)
        fires.fire_due(world)

        assert verdicts(world, "minutely") == [("ran", None, 1), ("ran", None, 1)]
        assert job_of(world, "minutely").id != waits.id
        assert occurrences_of(world, [waits])[0].is_replaced

    def test_an_occurrence_that_did_not_run_is_recorded_as_skipped(self, world: World, clock: VirtualClock) -> None:
        """In the run and in the fire record alike."""
        number = schedules.create(world, a_schedule("minutely")).number
        clock.advance(MINUTE)
        fires.fire_due(world)
        job = run(world, "skipped", error="lock")

        assert verdicts(world, "minutely") == [("skipped", "lock", 1)]
        assert [entry.outcome for entry in verbs.runs(world, job.id)] == ["skipped"]
        assert world.store.read(lambda tx: tx.schedules.skipped([number])) == {number}

    def test_an_occurrence_that_ran_before_it_was_skipped_stays_on_record_as_run(
        self, world: World, clock: VirtualClock
    ) -> None:
        schedules.create(world, a_schedule("minutely", retry=Retry.fixed(0, attempts=3)))
        clock.advance(MINUTE)
        fires.fire_due(world)
        run(world, "failed", error="Boom")
        run(world, "skipped", error="lock")

        assert verdicts(world, "minutely") == [("ran", None, 1)]

    def test_what_a_person_asked_for_does_not_yield(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("minutely"))
        fires.trigger(world, "minutely")
        waits = self._put_back(world)
        assert waits.held_for is None

        clock.advance(MINUTE)
        fires.fire_due(world)

        assert verdicts(world, "minutely")[-1] == ("skipped", "running", 1)

    def test_waiting_for_the_lock_ends_with_the_next_ending_of_another_kind(
        self, world: World, clock: VirtualClock
    ) -> None:
        schedules.create(world, a_schedule("minutely"))
        clock.advance(MINUTE)
        fires.fire_due(world)
        waits = self._put_back(world)
        clock.advance(timedelta(seconds=30))
        run(world, "released")

        assert verbs.get(world, waits.id).held_for is None

    def test_an_attempt_is_over_as_soon_as_it_no_longer_runs(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("minutely", retry=Retry.fixed(0, attempts=3)))
        clock.advance(MINUTE)
        fires.fire_due(world)
        [first] = take(world.store, 1, now=clock.now())
        holder = LockHolder.of(first)
        assert not is_over(world, holder)

        endings.fail(world, first.id, first.token, "Boom")
        assert is_over(world, holder)
        [second] = take(world.store, 1, now=clock.now())
        assert (is_over(world, holder), is_over(world, LockHolder.of(second))) == (True, False)
        endings.ack(world, second.id, second.token)
        assert is_over(world, LockHolder.of(second))

    def test_an_attempt_that_this_store_does_not_know_may_be_at_work(self, world: World, clock: VirtualClock) -> None:
        schedules.create(world, a_schedule("minutely"))
        clock.advance(MINUTE)
        fires.fire_due(world)
        job = run(world)
        known = LockHolder.of(job)

        assert is_over(world, known)
        assert not is_over(world, LockHolder(known.number, known.created_at + 1, known.token))
        assert not is_over(world, LockHolder(known.number + 1000, known.created_at, known.token))
