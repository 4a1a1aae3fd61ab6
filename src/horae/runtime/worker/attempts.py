"""One job in the hands of a worker, and what its ending means when somebody wanted it to stop."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from horae.core.jobs.job import SYSTEM, Change, Job, Outcome
from horae.ports import Limiter
from horae.runtime.logs import job_fields
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Handler, time_limit
from horae.runtime.worker.tracebacks import for_log

log = logging.getLogger("horae.worker")
Ask = Callable[[Callable[[], float | None]], Awaitable[float | None]]
TRACEBACK = re.compile(
    r"\s*^[ |+]*(?:Exception Group )?Traceback \(most recent call last\):\n.*", re.MULTILINE | re.DOTALL
)
FIRST_WAIT = timedelta(seconds=30)  # for a job whose handler is unknown here
LONGEST_WAIT = timedelta(minutes=10)
SHORTEST = 0.1  # seconds: zero would be no limit at all


@dataclass(slots=True)
class Attempt:
    """One job in the hands of this worker."""

    job: Job
    ctx: Context
    begun: float = 0.0  # on the monotonic clock
    task: asyncio.Task[None] | None = None
    entered: bool = False  # the task has taken its first step; cancelled before that, it never runs a line
    stop_reason: str = ""  # why it is being stopped: cancelled, lost, released


def is_closed(job: Job, handler: Handler) -> bool:
    """Whether the code of this worker does not open the handler to tenants, though the store said that it is open.

    It happens while two versions of the code are at work; the job waits for a worker of the one that opens it.
    """
    return job.owner != SYSTEM and not handler.tenants


def snooze_unknown_handler(job: Job, handler: Handler | None, now: datetime) -> Outcome:
    """A job that nobody here may run: looked at again, less and less often, and saying so."""
    reason = f"no worker here knows the handler {job.handler!r}; deploy it, or cancel the job"
    if handler is not None:
        reason = f"the code of this worker does not open {job.handler!r} to tenants; deploy one version everywhere"
    wait = min(max(FIRST_WAIT, (now - job.planned_at) / 2), LONGEST_WAIT)
    return Outcome("snoozed", error=reason, delay=wait)


def for_owner(job: Job, outcome: Outcome, *, is_logged: bool = False) -> Outcome:
    """The ending as it is stored. A tenant reads what went wrong with its job, and not our files and lines; those are
    in the worker's log.
    """
    if job.owner == SYSTEM or outcome.error is None:
        return outcome
    line = TRACEBACK.sub("", outcome.error)
    if line == outcome.error:
        return outcome
    if not is_logged:  # with its traceback, when the attempt is settled
        log.warning("%s (%s) failed for %s: %s", job.id, job.handler, job.owner, outcome.error, extra=job_fields(job))
    return replace(outcome, error=line)


def resolve_outcome(attempt: Attempt, outcome: Outcome) -> Outcome:
    """What a handler that was told to stop meant by its ending.

    One that saw ``ctx.cancelled`` and returned has stopped early; one that did not see it has done its work.
    """
    if not attempt.stop_reason or outcome.ending == "cancelled":
        return outcome
    stopped = attempt.ctx.noticed or not attempt.ctx.in_thread
    if outcome.ending == "succeeded":
        return ended_by(attempt) if attempt.ctx.noticed else outcome
    if attempt.stop_reason == "cancelled" or (stopped and outcome.ending != "snoozed"):
        return ended_by(attempt)
    return outcome


def ended_by(attempt: Attempt) -> Outcome:
    if attempt.stop_reason == "cancelled":
        return Outcome("cancelled", error="cancelled on request")
    if attempt.stop_reason == "released":
        return Outcome("released", error="its worker shut down")
    return Outcome("failed", error="CancelledError: the handler cancelled itself")


def time_left(attempt: Attempt, handler: Handler | None, now: float) -> timedelta | None:
    """Return what is left of an attempt's time limit; None where it has none."""
    limit = None if handler is None else time_limit(handler, attempt.job)
    return None if limit is None else timedelta(seconds=max(SHORTEST, limit - (now - attempt.begun)))


async def check_rate_limits(ask: Ask, *limiters: Limiter | None) -> Outcome | None:
    """Put the attempt off where a rate limit of its queue or its definition has no room; None: it may run."""
    for limiter in limiters:
        wait = None if limiter is None else await ask(limiter.try_acquire)
        if wait is not None:
            return Outcome("snoozed", error=f"rate limit: room again in {wait:.3g} s", delay=timedelta(seconds=wait))
    return None


def log_ending(job: Job, outcome: Outcome, change: Change | None, problem: BaseException | None) -> None:
    """Log an ending that was refused or that is a failure, with what the handler raised."""
    if change is None:
        log.warning("the ending of %s came too late: it has been handed on", job.id, extra=job_fields(job))
    elif outcome.ending in ("failed", "timed_out"):
        is_logged = job.schedule_id is not None  # by the line "job.failed", as document 003 wants it
        text, shows = for_log(None if is_logged else problem, outcome.error, is_logged=is_logged)
        said = (job.id, job.handler, change.state, text)
        log.warning("%s (%s) failed, now %s: %s", *said, exc_info=shows, extra=job_fields(job))
