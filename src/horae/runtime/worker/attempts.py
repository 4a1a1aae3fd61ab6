"""An attempt of this worker, and its outcome where it was asked to stop."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from horae.core.jobs.job import SYSTEM, Change, Job, Outcome
from horae.errors import StoreError
from horae.ports.locks import Limiter
from horae.runtime.logs import job_fields
from horae.runtime.worker.context import AttemptPort, Context
from horae.runtime.worker.executor import Handler, time_limit
from horae.runtime.worker.services import Services
from horae.runtime.worker.tracebacks import for_log

log = logging.getLogger("horae.worker")
Ask = Callable[[Callable[[], float | None]], Awaitable[float | None]]
TRACEBACK = re.compile(
    r"\s*^[ |+]*(?:Exception Group )?Traceback \(most recent call last\):\n.*", re.MULTILINE | re.DOTALL
)
FIRST_WAIT = timedelta(seconds=30)  # for a job whose handler is unknown here
LONGEST_WAIT = timedelta(minutes=10)
LIMIT_AWAY = timedelta(seconds=5)  # before an attempt whose rate limit could not be asked is tried again
SHORTEST = 0.1  # seconds: zero would be no limit at all


class Attempt(Context):
    """One claimed job that this worker runs: what its handler sees, and what the worker keeps about it."""

    task: asyncio.Task[None] | None = None  # while it runs: what has ended is not kept until its outcome is written
    entered = False  # the task has begun; a task that is cancelled before never runs its `finally`
    ended = False  # the task has ended, and its outcome is on its way
    stop_reason = ""  # why it is being stopped: cancelled, lost, released
    began = False  # its handler has been called, so that it may have had effects

    def __init__(self, job: Job, port: AttemptPort, services: Services, begun: float) -> None:
        self.claimed, self._port, self.services = job, port, services  # as Context does; a call less for every attempt
        self.begun = begun  # on the monotonic clock


def is_closed(job: Job, handler: Handler) -> bool:
    """Return whether this worker's code closes the handler to tenants although the store says that it is open.

    This happens while two versions of the code run; the job waits for a worker of the version that opens it.
    """
    return job.owner != SYSTEM and not handler.tenants


def snooze_unknown_handler(job: Job, handler: Handler | None, now: datetime) -> Outcome:
    """Snooze a job that this worker cannot run, for longer each time, with the reason as its error."""
    reason = f"no worker here knows the handler {job.handler!r}; deploy it, or cancel the job"
    if handler is not None:
        reason = f"the code of this worker does not open {job.handler!r} to tenants; deploy one version everywhere"
    wait = min(max(FIRST_WAIT, (now - job.planned_at) / 2), LONGEST_WAIT)
    return Outcome("snoozed", error=reason, delay=wait)


def for_owner(job: Job, outcome: Outcome, *, is_logged: bool = False) -> Outcome:
    """Return the outcome as it is stored: a tenant's job without the traceback, which stays in the worker's log."""
    if job.owner == SYSTEM or outcome.error is None:
        return outcome
    line = TRACEBACK.sub("", outcome.error)
    if line == outcome.error:
        return outcome
    if not is_logged:  # otherwise it is logged with its traceback when the attempt is settled
        log.warning("%s (%s) failed for %s: %s", job.id, job.handler, job.owner, outcome.error, extra=job_fields(job))
    return replace(outcome, error=line)


def resolve_outcome(attempt: Attempt, outcome: Outcome) -> Outcome:
    """Return the outcome of an attempt that was asked to stop.

    A handler that saw ``ctx.cancelled`` and returned has stopped early; one that did not see it has done its work.
    """
    if not attempt.stop_reason or outcome.ending == "cancelled":
        return outcome
    stopped = attempt.noticed or not attempt.in_thread
    if outcome.ending == "succeeded":
        return ended_by(attempt) if attempt.noticed else outcome
    if attempt.stop_reason == "cancelled" or (stopped and outcome.ending != "snoozed"):
        return ended_by(attempt)
    return outcome


def ended_by(attempt: Attempt) -> Outcome:
    if attempt.stop_reason == "cancelled":
        return Outcome("cancelled", error="cancelled on request")
    if attempt.stop_reason == "released":
        return Outcome("released", error="its worker shut down")
    return Outcome("failed", error="CancelledError: the handler cancelled itself")


def unspent(attempt: Attempt, outcome: Outcome) -> Outcome:
    """Return the outcome; where the handler never began, with a report that nothing was spent."""
    return outcome if attempt.began else unstarted(attempt.claimed, outcome)


def unstarted(job: Job, outcome: Outcome) -> Outcome:
    """Return the outcome of a job whose handler never began: one with a budget reports that nothing was spent."""
    return outcome if job.budget is None else replace(outcome, spent={})


def time_left(attempt: Attempt, handler: Handler | None, now: float) -> timedelta | None:
    """Return what is left of an attempt's time limit; None without a limit."""
    limit = None if handler is None else time_limit(handler, attempt.claimed)
    return None if limit is None else timedelta(seconds=max(SHORTEST, limit - (now - attempt.begun)))


async def check_rate_limits(ask: Ask, *limiters: Limiter | None) -> Outcome | None:
    """Return an outcome that snoozes the attempt while a rate limit is exhausted; None if it may run."""
    for limiter in limiters:
        try:
            wait = None if limiter is None else await ask(limiter.try_acquire)
        except StoreError as problem:  # where its calls are counted does not answer; the work has not begun
            return Outcome("snoozed", error=f"its rate limit cannot be asked: {problem}", delay=LIMIT_AWAY)
        if wait is not None:
            return Outcome("snoozed", error=f"rate limit: room again in {wait:.3g} s", delay=timedelta(seconds=wait))
    return None


def log_ending(job: Job, outcome: Outcome, change: Change | None, problem: BaseException | None) -> None:
    """Log an outcome that was refused or that is a failure, with the handler's exception."""
    if change is None:
        log.warning("the outcome of %s was refused: its lease was lost before", job.id, extra=job_fields(job))
    elif outcome.ending in ("failed", "timed_out"):
        is_logged = job.schedule_id is not None  # by the line "job.failed" that document 003 requires
        text, shows = for_log(None if is_logged else problem, outcome.error, is_logged=is_logged)
        said = (job.id, job.handler, change.state, text)
        log.warning("%s (%s) failed, now %s: %s", *said, exc_info=shows, extra=job_fields(job))
