"""One job in the hands of a worker, and what its ending means when somebody wanted it to stop."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from horae.core.jobs import SYSTEM, Job, Outcome
from horae.ports import Limiter
from horae.runtime.context import Context
from horae.runtime.executor import Handler

Ask = Callable[[Callable[[], float | None]], Awaitable[float | None]]

log = logging.getLogger("horae.worker")
TRACEBACK = re.compile(
    r"\s*^[ |+]*(?:Exception Group )?Traceback \(most recent call last\):\n.*", re.MULTILINE | re.DOTALL
)
FIRST_WAIT = timedelta(seconds=30)  # for a job whose handler is unknown here
LONGEST_WAIT = timedelta(minutes=10)


@dataclass(slots=True)
class Attempt:
    """One job in the hands of this worker."""

    job: Job
    ctx: Context
    begun: float = 0.0  # on the monotonic clock
    task: asyncio.Task[None] | None = None
    fate: str = ""  # why it is being stopped: cancelled, lost, released
    in_thread: bool = False


def is_closed(job: Job, handler: Handler) -> bool:
    """Whether the code of this worker does not open the handler to tenants, though the store said that it is open.

    It happens while two versions of the code are at work; the job waits for a worker of the one that opens it.
    """
    return job.owner != SYSTEM and not handler.tenants


def put_off(job: Job, handler: Handler | None, now: datetime) -> Outcome:
    """A job that nobody here may run: looked at again, less and less often, and saying so."""
    reason = f"no worker here knows the handler {job.handler!r}; deploy it, or cancel the job"
    if handler is not None:
        reason = f"the code of this worker does not open {job.handler!r} to tenants; deploy one version everywhere"
    wait = min(max(FIRST_WAIT, (now - job.planned_at) / 2), LONGEST_WAIT)
    return Outcome("snoozed", error=reason, delay=wait)


def for_owner(job: Job, outcome: Outcome) -> Outcome:
    """The ending as it is stored. A tenant reads what went wrong with its job, and not our files and lines; those are
    in the worker's log.
    """
    if job.owner == SYSTEM or outcome.error is None:
        return outcome
    told = TRACEBACK.sub("", outcome.error)
    if told == outcome.error:
        return outcome
    log.warning("%s (%s) failed for %s: %s", job.id, job.handler, job.owner, outcome.error, extra=facts(job))
    return replace(outcome, error=told)


def as_fated(attempt: Attempt, outcome: Outcome) -> Outcome:
    """What a handler that was told to stop meant by its ending.

    One that saw ``ctx.cancelled`` and returned has stopped early; one that did not see it has done its work.
    """
    if not attempt.fate or outcome.ending == "cancelled":
        return outcome
    stopped = attempt.ctx.noticed or not attempt.in_thread
    if outcome.ending == "succeeded":
        return ended_by(attempt) if attempt.ctx.noticed else outcome
    if attempt.fate == "cancelled" or (stopped and outcome.ending != "snoozed"):
        return ended_by(attempt)
    return outcome


def ended_by(attempt: Attempt) -> Outcome:
    if attempt.fate == "cancelled":
        return Outcome("cancelled", error="cancelled on request")
    if attempt.fate == "released":
        return Outcome("released", error="its worker shut down")
    return Outcome("failed", error="CancelledError: the handler cancelled itself")


async def slowed_down(ask: Ask, *limiters: Limiter | None) -> Outcome | None:
    """Put the attempt off where a rate limit of its queue or its definition has no room; None: it may run."""
    for limiter in limiters:
        wait = None if limiter is None else await ask(limiter.try_acquire)
        if wait is not None:
            return Outcome("snoozed", error=f"rate limit: room again in {wait:.3g} s", delay=timedelta(seconds=wait))
    return None


def facts(job: Job) -> dict[str, str]:
    """What a line of the log says of the job it is about."""
    return {"job_id": job.id, "run_id": job.run_id, "handler": job.handler, "queue": job.queue}
