"""The occurrence of a scheduled job: its schedule, its lock, and putting the job back without it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.locks import LOCK, LockHolder
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import micros
from horae.ports.store import Tx
from horae.ports.world import World

FIRST_WAIT = timedelta(seconds=1)  # for a lock that another run holds
AWAY_WAIT = timedelta(seconds=5)  # until a lock manager that does not answer is asked again
LONGEST_WAIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The schedule of a job as it is now, and whether a later occurrence has replaced the job."""

    schedule: Schedule | None
    is_replaced: bool

    @property
    def lock_ttl(self) -> timedelta | None:
        """Return how long the lock holds unrenewed; None for a job that takes none."""
        schedule = self.schedule
        return schedule.lock_ttl if schedule is not None and schedule.mode == "SINGLE_NODE" else None


def occurrences_of(world: World, jobs: Sequence[Job]) -> list[Occurrence]:
    """Read the schedules of jobs. Only a job that waited for its lock can have been replaced."""
    numbers = {job.schedule_id for job in jobs if job.schedule_id is not None}

    def read(tx: Tx) -> list[Occurrence]:
        known = tx.schedules.by_number(numbers)
        return [Occurrence(known.get(job.schedule_id or 0), _is_replaced(tx, job)) for job in jobs]

    return world.route().store.read(read)


def _is_replaced(tx: Tx, job: Job) -> bool:
    number, fire_at = job.schedule_id, job.fire_at
    if job.held_for != LOCK or fire_at is None or number is None:
        return False
    return tx.schedules.has_fired_since(number, fire_at, job.created_at)


def is_over(world: World, holder: LockHolder) -> bool:
    """Return whether an attempt is known in this store and no longer running; then its lock is free.

    An attempt that this store does not know may be at work in another one.
    """
    job = world.route().store.read(lambda tx: tx.jobs.get(holder.number))
    if job is None or micros(job.created_at) != holder.created_at:
        return False
    return job.state != "running" or job.token != holder.token


def put_back(world: World, job: Job, key: str, held_by: LockHolder | None, now: datetime) -> Outcome:
    """Put an attempt back that did not get its lock; it is not counted, and asks less and less often.

    An occurrence of the schedule's own rhythm yields to the next one; what a person asked for waits however long.
    """
    number, fire_at = job.schedule_id, job.fire_at
    assert number is not None
    by = "another program" if held_by is None else f"run {held_by.run_id}"
    yields = fire_at is not None and world.route(owner=job.owner, key=key, id=job.id).store.read(
        lambda tx: tx.schedules.was_fired(number, fire_at, job.number)
    )
    return Outcome(
        "snoozed",
        error=f"its lock {key} is held by {by}",
        delay=_pause(job, now, FIRST_WAIT),
        waits_for=LOCK if yields else None,
    )


def snooze_for_lock(job: Job, problem: Exception, now: datetime) -> Outcome:
    """Put an attempt back because the lock manager does not answer; no other occurrence replaces it meanwhile."""
    return Outcome("snoozed", error=f"the lock manager does not answer: {problem}", delay=_pause(job, now, AWAY_WAIT))


def _pause(job: Job, now: datetime, at_least: timedelta) -> timedelta:
    """Ask less and less often: each try leaves a run in the history."""
    waited = now - max(job.created_at, job.planned_at)
    return min(max(at_least, waited / 2), LONGEST_WAIT)
