"""Runs outside the queue: code that Horae does not schedule, and jobs that every node runs for itself.

Such a run is a job that the process that started it holds. It is never given to another and never tried again;
when its process dies, its lease runs out and it is closed as lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs.endings import settle
from horae.core.jobs.job import LOCAL, SYSTEM, Change, Job, NewJob, Outcome, band_of
from horae.core.jobs.payloads import encode, label, name
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.errors import LeaseLost
from horae.ports.store import Tx
from horae.ports.world import World

TRACKED_QUEUE = LOCAL
DEFAULT_LEASE = timedelta(hours=1)


def begin(
    world: World,
    tracked: str,
    *,
    worker_id: str,
    schedule: Schedule | None = None,
    fire_at: datetime | None = None,
    payload: Mapping[str, Any] | None = None,
    owner: str = SYSTEM,
    lease: timedelta = DEFAULT_LEASE,
) -> Job:
    """Record that a run starts here and now."""
    now = world.clock.now()
    planned_at = fire_at or now
    new = NewJob(
        handler=name(tracked, "handler", 200),
        payload=encode(dict(payload or {}), max_bytes=world.max_payload_bytes),
        queue=TRACKED_QUEUE,
        band=band_of("medium"),
        run_at=planned_at,
        planned_at=planned_at,
        owner=label(owner, "owner"),
        max_attempts=1,
        retry=encode(Retry.none().as_json()),
        held=LOCAL,
        schedule_id=None if schedule is None else schedule.number,
        fire_at=fire_at,
    )

    def write(tx: Tx) -> Job:
        followed = schedule is not None and (
            schedule.expect is not None or bool(tx.schedules.followers(schedule.number))
        )
        number = tx.jobs.insert([replace(new, has_dependents=followed)], now)[0].number
        tx.jobs.start(number, worker_id=label(worker_id, "worker id", 200), until=world.clock.steady() + lease, now=now)
        job = tx.jobs.get(number)
        assert job is not None
        return job

    return world.route(owner=owner).store.transact(write)


def end(world: World, job: Job, outcome: Outcome) -> Change:
    """Record how a run ended."""
    change = settle(world, [(job, outcome)])[job.id]
    if change is None:
        raise LeaseLost(job.id, job.token)
    return change
