"""Call one function for one job and say how it ended.

Async handlers run on the loop, sync ones in threads, and those declared ``executor="process"`` in a child process
that can be killed. Every way a handler can end becomes an ``Outcome``; nothing it raises travels further.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Protocol

from horae.actions.jobs import shown
from horae.core.jobs import Job, Outcome
from horae.core.outcomes import Cancel, Snooze
from horae.core.payloads import encode
from horae.errors import HandlerFailed, InvalidPayload
from horae.ports import Limiter
from horae.runtime.context import Context
from horae.runtime.threads import Threads

log = logging.getLogger("horae.worker")
SUCCEEDED = Outcome("succeeded")
PATIENCE = timedelta(seconds=5)  # for a handler whose time is up and that cannot be killed


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
    @property
    def rate_limit(self) -> Limiter | None: ...
    @property
    def tenants(self) -> bool:
        """Whether tenants' jobs may run it."""


Ended = tuple[Any, BaseException | None]  # what a handler returned or raised
Running = asyncio.Future[Ended]


class TimeUp(Exception):
    """The handler took longer than it may."""


class Stuck(TimeUp):
    """It also did not end when asked, and cannot be ended from outside."""


class Reported(Exception):
    """A failure that happened elsewhere; its text is all there is to tell."""


class Processes(Protocol):
    """Runs a handler in a child process; killed when cancelled, or with ``TimeUp`` after its time limit."""

    async def run(self, handler: Handler, ctx: Context) -> Any: ...
    def close(self) -> None: ...


def time_limit(handler: Handler, job: Job) -> float | None:
    """How many seconds an attempt may take."""
    limit = job.timeout or handler.timeout
    return None if limit is None else limit.total_seconds()


class Executor:
    """Runs handlers; one for each worker."""

    def __init__(
        self, threads: Threads, processes: Processes, max_result_bytes: int, patience: timedelta = PATIENCE
    ) -> None:
        self._threads = threads
        self._processes = processes
        self._max_result_bytes = max_result_bytes
        self._patience = min(patience, PATIENCE).total_seconds()
        self.stuck = 0

    async def run(self, handler: Handler, ctx: Context) -> Outcome:
        """The outcome of one attempt. A cancellation from outside passes through; the worker knows its meaning."""
        try:
            result = await self._call(handler, ctx)
        except Snooze as snooze:
            return Outcome("snoozed", error=snooze.reason or None, delay=snooze.delay)
        except Cancel as cancel:
            return Outcome("cancelled", error=cancel.reason or "by its handler")
        except TimeUp as late:
            self.stuck += isinstance(late, Stuck)
            return await self._decided(handler, ctx.job, Outcome("timed_out", error=str(late)))
        except asyncio.CancelledError:
            raise
        except BaseException as problem:  # whatever a handler raises ends its attempt, never the worker
            ctx.problem = problem
            return await self._decided(handler, ctx.job, Outcome("failed", error=told(problem)))
        return SUCCEEDED if result is None else Outcome("succeeded", result=self._encoded(handler, result))

    async def _call(self, handler: Handler, ctx: Context) -> Any:
        if handler.executor == "process":
            return await self._processes.run(handler, ctx)
        arguments = ctx.job.payload if isinstance(ctx.job.payload, dict) else {"payload": ctx.job.payload}
        given = (ctx,) if handler.takes_context else ()
        limit = time_limit(handler, ctx.job)
        if handler.executor == "async":
            if limit is None:
                return await _called_async(handler, ctx, given, arguments)
            running: Running = asyncio.ensure_future(_contained(_called_async(handler, ctx, given, arguments)))
        else:
            running = self._threads.submit(lambda: _caught(lambda: _called(handler, ctx, given, arguments)))
        result, problem = await self._within(limit, running, ctx)
        if problem is not None:
            raise problem
        return result

    async def _within(self, limit: float | None, running: Running, ctx: Context) -> Ended:
        """A handler's result, if it ends in time. One whose time is up is asked to end, then waited for a moment:
        neither a thread nor a coroutine that ignores its cancellation can be killed.
        """
        try:
            if limit is None:
                return await running
            done, _ = await asyncio.wait([running], timeout=limit)
        except asyncio.CancelledError:
            return await _stopped(running, ctx)
        if done:
            return running.result()
        ctx.cancel()
        if isinstance(running, asyncio.Task):
            running.cancel()
        done, _ = await asyncio.wait([running], timeout=self._patience)
        running.add_done_callback(ignored)
        if done:
            raise TimeUp(f"timed_out: over {timedelta(seconds=limit)}")
        self._threads.give_up_one()
        raise Stuck(
            f"timed_out: over {timedelta(seconds=limit)}, and it did not end when asked; its worker finishes what "
            "it has and ends, to be replaced. Look at ctx.cancelled in long handlers, or declare executor='process'"
        )

    async def _decided(self, handler: Handler, job: Job, outcome: Outcome) -> Outcome:
        """With an external policy somebody else says whether and when to try again, within the deadline."""
        if handler.decide is None:
            return outcome
        try:
            async with asyncio.timeout(job.retry.deadline.total_seconds()):
                verdict = await self._answer(handler.decide, job, outcome.error or "")
        except Exception as silence:
            log.warning("decide of %s gave no answer: %r; its default applies", handler.name, silence)
            return outcome
        return Outcome(outcome.ending, error=outcome.error, delay=verdict, final=verdict is None)

    async def _answer(self, decide: Callable[..., Any], job: Job, error: str) -> timedelta | None:
        if inspect.iscoroutinefunction(decide):
            verdict, problem = await asyncio.ensure_future(_contained(decide(job, error)))
        else:
            running = self._threads.submit(lambda: _caught(lambda: decide(job, error)))
            try:
                verdict, problem = await asyncio.shield(running)
            except asyncio.CancelledError:
                self._threads.give_up_one()  # it may never come back
                raise
        if problem is not None:
            raise RuntimeError(_line(problem)) from problem
        if verdict is None:
            return None
        return max(timedelta(0), verdict if isinstance(verdict, timedelta) else timedelta(seconds=verdict))

    def _encoded(self, handler: Handler, result: Any) -> str | None:
        if result is None:
            return None
        try:
            return encode(result, "result", self._max_result_bytes)
        except InvalidPayload as problem:
            log.warning("the result of %s is not kept: %s", handler.name, problem)
            return None


def _called(handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """The handler's answer; what was made for this run ends with it."""
    try:
        return handler.function(*given, **arguments)
    finally:
        if "scope" in vars(ctx):
            ctx.scope.close()


async def _called_async(handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    try:
        return await handler.function(*given, **arguments)
    finally:
        if "scope" in vars(ctx):
            await ctx.scope.aclose()


async def _stopped(running: Running, ctx: Context) -> Ended:
    """The worker wants the handler to end: pass it on, and wait; who shields itself is waited for."""
    ctx.cancel()
    if not isinstance(running, asyncio.Task):
        raise asyncio.CancelledError
    running.cancel()
    await asyncio.wait([running])
    ended: Ended = running.result()
    return ended


async def _contained(work: Coroutine[Any, Any, Any]) -> Ended:
    """What a coroutine returned or raised, as a value: asyncio lets ``SystemExit`` in a task end the whole loop."""
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except BaseException as problem:
        return None, problem


def _caught(work: Callable[[], Any]) -> Ended:
    """What a function returned or raised, as a value: some exceptions mean something else to whoever awaits them."""
    try:
        return work(), None
    except BaseException as problem:
        return None, problem


def ignored(late: asyncio.Future[Any]) -> None:
    """What a future that nobody waits for any more brings is not news."""
    if not late.cancelled():
        late.exception()


def told(problem: BaseException) -> str:
    """``Type: text`` first, because people read one line, then where it happened."""
    if isinstance(problem, Reported):
        return shown(str(problem))
    if isinstance(problem, HandlerFailed):  # said on purpose, to whoever owns the job: our files are not their business
        return shown(_line(problem))
    return shown(_line(problem) + "\n\n" + "".join(traceback.format_exception(problem)))


def _line(problem: BaseException) -> str:
    try:
        return f"{type(problem).__name__}: {problem}"
    except Exception:
        return f"{type(problem).__name__}: (its text cannot be shown)"
