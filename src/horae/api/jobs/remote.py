"""The jobs room behind a service, with the values that the verbs in this process return."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from horae.actions.jobs.requests import Enqueued, Request, new_job
from horae.api.jobs import room
from horae.api.jobs.room import Jobs, options_of
from horae.api.operation import Sender
from horae.core.governance.budgets import job_budget
from horae.core.jobs.job import SYSTEM, Job, job_number
from horae.errors import NeedsDatabase, NotFound
from horae.ports.world import World

SHARED = tuple(
    each.name
    for each in fields(Job)
    if each.name in {public.name for public in fields(room.Job)} - {"rerun_of", "budget"}
)
SOME_SCHEDULE = 0  # a service does not reveal its number


def core_job(job: room.Job) -> Job:
    """Return the core value of a public job; the number of its schedule is not known."""
    known: dict[str, Any] = {name: getattr(job, name) for name in SHARED}
    return Job(
        number=job_number(job.id),
        schedule_id=None if job.fire_at is None else SOME_SCHEDULE,
        rerun_of=None if job.rerun_of is None else job_number(job.rerun_of),
        budget=job_budget(job.budget, job.cost) if job.budget is not None else None,
        **known,
    )


def enqueue(jobs: Jobs[Sender], world: World, requests: Sequence[Request], connection: Any = None) -> list[Enqueued]:
    """Store jobs through a service: all of them, or, when one is refused, none."""
    if connection is not None:
        raise NeedsDatabase("connection_needs_database")
    now = world.clock.now()
    rows = [new_job(world, request, now) for request in requests]  # what cannot be accepted is refused here already
    if not rows:
        return []
    requested = [_as_sent(request, row.trace_id) for request, row in zip(requests, rows, strict=True)]
    made = [jobs.enqueue(**options_of(requested[0]))] if len(requested) == 1 else jobs.enqueue_many(requested)
    return [
        Enqueued(
            job_number(each.id),
            each.deduplicated,
            each.late,
            _stored(jobs, each) or replace(row, run_at=each.run_at),
            now,
            gathered=each.gathered,
        )
        for each, row in zip(made, rows, strict=True)
    ]


def _as_sent(request: Request, trace_id: str | None) -> Request:
    if request.owner != SYSTEM:
        raise NeedsDatabase("owner_needs_database", owner=request.owner)
    return replace(request, trace_id=trace_id)


def _stored(jobs: Jobs[Sender], made: room.Enqueued) -> Job | None:
    """Return the stored job where it differs from the requested one; None where it does not."""
    if made.deduplicated or made.state != "queued":
        with suppress(NotFound, NeedsDatabase):  # a key is kept for longer than its job; a bus looks at no job
            return core_job(jobs.get(made.id))
    return None
