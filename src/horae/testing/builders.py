"""Values for tests, with only what the test cares about; the rest has a sensible default."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs.requests import Request
from horae.core.jobs.job import Job, NewJob, Priority, State, band_of
from horae.core.jobs.payloads import encode
from horae.core.schedules.schedule import Schedule
from horae.testing.clock import NOON

LEASE = timedelta(seconds=30)


def a_job(state: State = "queued", **fields: Any) -> Job:
    """Return a job as a store would give it back; a running one holds a lease with token 1."""
    held: dict[str, Any] = {}
    if state == "running":
        held = {"token": 1, "worker_id": "w1", "leased_until": NOON + LEASE, "started_at": NOON}
    job = Job(
        number=1,
        handler="greet",
        payload={},
        state=state,
        queue="default",
        priority="medium",
        run_at=NOON,
        planned_at=NOON,
        created_at=NOON,
    )
    return replace(job, **(held | fields))


def a_new_job(
    payload: Any = None,
    *,
    priority: Priority = "medium",
    run_at: datetime = NOON,
    tags: tuple[str, ...] = (),
    **fields: Any,
) -> NewJob:
    """Return a job ready to be stored, due at noon; payload and tags are given as values."""
    fields.setdefault("handler", "greet")
    fields.setdefault("queue", "default")
    fields.setdefault("planned_at", run_at)
    return NewJob(
        payload=encode({} if payload is None else payload),
        band=band_of(priority),
        run_at=run_at,
        tags=encode(list(tags)) if tags else None,
        **fields,
    )


def a_request(payload: Any = None, **fields: Any) -> Request:
    """Return a request for a job of the handler ``greet``."""
    fields.setdefault("handler", "greet")
    return Request(payload=payload, **fields)


def a_schedule(key: str = "minutely", expression: str = "* * * * *", **fields: Any) -> Schedule:
    """Return a schedule about to be created: every minute, unless *expression* says otherwise."""
    fields = {"kind": "cron", "handler": "greet"} | fields
    return Schedule(key=key, expression=expression, **fields)
