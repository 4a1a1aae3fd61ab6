"""Call one function for one job and say how it ended.

Async handlers run on the loop, sync ones in threads, and those declared ``executor="process"`` in a child process
that can be killed. Every way a handler can end becomes an ``Outcome``; nothing it raises travels further.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

from horae.actions.jobs import shown
from horae.core.jobs import Job, Outcome
from horae.core.outcomes import Cancel, Snooze
from horae.core.payloads import encode
from horae.errors import InvalidPayload
from horae.runtime.context import Context
from horae.runtime.threads import Threads

log = logging.getLogger("horae.worker")
THREAD_GRACE = timedelta(seconds=5)


class Handler(Protocol):
    """What the runtime needs to know of a definition."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def executor(self) -> str: ...
    @property
    def takes_context(self) -> bool: ...
    @property
    def timeout(self) -> timedelta | None: ...
    @property
    def decide(self) -> Callable[..., Any] | None: ...


class Stuck(Exception):
    """A thread that neither ended nor can be ended."""


class Processes(Protocol):
    """Runs a handler in a child process; killed when cancelled."""

    async def run(self, handler: Handler, ctx: Context) -> Any: ...
    def close(self) -> None: ...


class Executor:
    """Runs handlers; one for each worker."""

    def __init__(self, threads: Threads, processes: Processes, max_result_bytes: int) -> None:
        self._threads = threads
        self._processes = processes
        self._max_result_bytes = max_result_bytes
        self.stuck = 0

    async def run(self, handler: Handler, ctx: Context) -> Outcome:
        """The outcome of one attempt. A cancellation from outside passes through; the worker knows its meaning."""
        timeout = ctx.job.timeout or handler.timeout
        limit = asyncio.timeout(None if timeout is None else timeout.total_seconds())
        try:
            async with limit:
                result = await self._call(handler, ctx)
        except Snooze as snooze:
            return Outcome("snoozed", error=snooze.reason or None, delay=snooze.delay)
        except Cancel as cancel:
            return Outcome("cancelled", error=cancel.reason or "by its handler")
        except TimeoutError as problem:
            if not limit.expired():
                return await self._failed(handler, ctx.job, problem)
            return await self._decided(handler, ctx.job, Outcome("timed_out", error=f"timed_out: over {timeout}"))
        except asyncio.CancelledError:
            raise
        except Stuck:
            self.stuck += 1
            error = f"timed_out: over {timeout}, and its thread did not end; the worker will be replaced"
            return await self._decided(handler, ctx.job, Outcome("timed_out", error=error))
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as problem:
            return await self._failed(handler, ctx.job, problem)
        return Outcome("succeeded", result=self._encoded(handler, result))

    async def _call(self, handler: Handler, ctx: Context) -> Any:
        if handler.executor == "process":
            return await self._processes.run(handler, ctx)
        arguments = ctx.job.payload if isinstance(ctx.job.payload, dict) else {"payload": ctx.job.payload}
        given = (ctx,) if handler.takes_context else ()
        if handler.executor == "async":
            return await handler.function(*given, **arguments)
        return await self._in_thread(lambda: handler.function(*given, **arguments), ctx)

    async def _in_thread(self, work: Callable[[], Any], ctx: Context) -> Any:
        """A thread cannot be killed: when its time is up it is asked, and given a moment, before we go on."""
        running = self._threads.submit(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            ctx.cancel()
            done, _ = await asyncio.wait([running], timeout=THREAD_GRACE.total_seconds())
            if not done:
                running.add_done_callback(lambda late: late.cancelled() or late.exception())
                raise Stuck(ctx.job.id) from None
            raise

    async def _failed(self, handler: Handler, job: Job, problem: BaseException) -> Outcome:
        return await self._decided(handler, job, Outcome("failed", error=told(problem)))

    async def _decided(self, handler: Handler, job: Job, outcome: Outcome) -> Outcome:
        """With an external policy somebody else says whether and when to try again, within the deadline."""
        if handler.decide is None:
            return outcome
        try:
            async with asyncio.timeout(job.retry.deadline.total_seconds()):
                verdict = await _answer(handler.decide, job, outcome.error or "")
        except Exception as silence:
            log.warning("decide of %s gave no answer: %r; its default applies", handler.name, silence)
            return outcome
        return Outcome(outcome.ending, error=outcome.error, delay=verdict, final=verdict is None)

    def _encoded(self, handler: Handler, result: Any) -> str | None:
        if result is None:
            return None
        try:
            return encode(result, "result", self._max_result_bytes)
        except InvalidPayload as problem:
            log.warning("the result of %s is not kept: %s", handler.name, problem)
            return None


async def _answer(decide: Callable[..., Any], job: Job, error: str) -> timedelta | None:
    answer = decide(job, error) if inspect.iscoroutinefunction(decide) else asyncio.to_thread(decide, job, error)
    verdict = await answer if isinstance(answer, Awaitable) else answer
    return verdict if verdict is None or isinstance(verdict, timedelta) else timedelta(seconds=verdict)


def told(problem: BaseException) -> str:
    """``Type: text`` first, because people read one line, then where it happened."""
    head = f"{type(problem).__name__}: {problem}"
    return shown(head + "\n\n" + "".join(traceback.format_exception(problem)))
