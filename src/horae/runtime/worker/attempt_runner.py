"""Run one attempt: check whether it may run here and now, call its handler, and resolve its outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from horae.core.jobs.job import Outcome, handler_of
from horae.ports.locks import Limiter
from horae.ports.world import Clock
from horae.runtime.logs import job_fields, running_job
from horae.runtime.worker.attempts import (
    Ask,
    Attempt,
    check_rate_limits,
    ended_by,
    is_closed,
    resolve_outcome,
    snooze_unknown_handler,
    unspent,
)
from horae.runtime.worker.calls import is_cancelled_from_outside, raised_by_signal
from horae.runtime.worker.context import Context
from horae.runtime.worker.executor import Handler, Resolve
from horae.runtime.worker.faults import Faults
from horae.runtime.worker.tracebacks import error_line, error_text, loggable

log = logging.getLogger("horae.worker")


class Executes(Protocol):
    """Call the handler of an attempt and return the outcome."""

    async def run(self, handler: Handler, ctx: Context) -> Outcome: ...


class AttemptRunner:
    """Run the attempts of one worker."""

    def __init__(
        self,
        clock: Clock,
        resolve: Resolve,
        rates: Mapping[str, Limiter],
        executor: Executes,
        surround: Callable[[Context, Callable[[], Awaitable[Outcome]]], Awaitable[Outcome]],
        faults: Faults,
    ) -> None:
        self._clock = clock
        self._resolve = resolve
        self._rates = rates
        self._executor = executor
        self._surround = surround  # lock and listeners of scheduled jobs
        self._faults = faults

    def catch(self, attempt: Attempt, problem: BaseException) -> Outcome | None:
        """Return the outcome of an attempt that was cancelled (None) or failed outside its handler.

        A real signal is raised again.
        """
        job = attempt.claimed
        if isinstance(problem, asyncio.CancelledError):
            log.debug("the attempt at %s was cancelled", job.id, extra=job_fields(job))
            return None
        if raised_by_signal(problem):  # else it is an error of Horae, which must not cost the worker a slot
            raise problem
        log.error(
            "an attempt at %s failed outside its handler: %s",
            job.id,
            error_line(problem),
            exc_info=loggable(problem),
            extra=job_fields(job),
        )
        return Outcome("failed", error=error_text(problem))

    def conclude(self, attempt: Attempt, outcome: Outcome | None, worker: asyncio.Task[Any] | None) -> Outcome:
        """Return the outcome as it is to be written; None is a cancelled attempt.

        If the task of the *worker* is being cancelled too, a cancelled attempt was interrupted and is released.
        Otherwise an attempt that was cancelled without a stop reason has cancelled itself.
        """
        if not attempt.stop_reason and worker is not None and worker.cancelling() and is_cancelled_from_outside():
            attempt.stop_reason = "released"
        return unspent(attempt, ended_by(attempt) if outcome is None else resolve_outcome(attempt, outcome))

    def begin(self, attempt: Attempt, ask: Ask) -> Awaitable[Outcome]:
        """Return the outcome, to be awaited; the usual attempt is the call of its handler and no coroutine around it.

        What is decided without waiting is decided here; an error here is an error of the attempt.
        """
        job = attempt.claimed
        running_job.set(job)  # each attempt has a task of its own
        handler = self._resolve(handler_of(job))
        if handler is None or is_closed(job, handler):
            return _decided(snooze_unknown_handler(job, handler, self._clock.now()))
        if job.cancel_requested:  # requested while an earlier attempt was failing
            return _decided(Outcome("cancelled", error=job.cancel_reason))
        if self._rates or handler.rate_limit is not None:
            limiters = (self._rates.get(job.queue), handler.rate_limit)
            return self._within_rates(attempt, handler, ask, limiters)
        return self._run(attempt, handler)

    async def _within_rates(
        self, attempt: Attempt, handler: Handler, ask: Ask, limiters: tuple[Limiter | None, ...]
    ) -> Outcome:
        waits = await check_rate_limits(ask, *limiters)
        return await self._run(attempt, handler) if waits is None else waits

    def _run(self, attempt: Attempt, handler: Handler) -> Awaitable[Outcome]:
        self._faults.at("run.before")
        if attempt.claimed.schedule_id is None:  # the usual job has neither a lock nor listeners
            return self._start(attempt, handler)
        return self._surround(attempt, lambda: self._start(attempt, handler))

    def _start(self, attempt: Attempt, handler: Handler) -> Awaitable[Outcome]:
        if attempt.stop_reason == "given back":  # another worker may have the job by now
            raise asyncio.CancelledError
        attempt.began = True
        return self._executor.run(handler, attempt)


async def _decided(outcome: Outcome) -> Outcome:
    return outcome
