"""Call one function for one job and say how it ended.

Async handlers run on the loop, sync ones in threads, and those declared ``executor="process"`` in a child process
that can be killed. Every way a handler can end becomes an ``Outcome``; nothing it raises travels further.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import CoroutineType
from typing import Any, Protocol

from horae.actions.jobs.jobs import truncate
from horae.core.jobs.job import Job, Outcome, not_kept
from horae.core.jobs.outcomes import Cancel, Snooze
from horae.core.jobs.payloads import encode
from horae.errors import InvalidPayload
from horae.ports import Limiter
from horae.runtime.worker.calls import (
    PLAIN,
    Ended,
    Uncaught,
    Unfinished,
    awaited,
    call_through,
    caught,
    contained,
    finished,
    here,
    is_awaitable,
    is_cancelled_from_outside,
    raised_by_signal,
)
from horae.runtime.worker.context import Context
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import error_line, error_text, is_printable, without_our_frames

log = logging.getLogger("horae.worker")
SUCCEEDED = Outcome("succeeded")
CANCELLED_ITSELF = "CancelledError: the handler cancelled itself"
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


Running = asyncio.Future[Ended]
Resolve = Callable[[str], Handler | None]  # the handler of that name, where this process knows one


class TimeUp(Exception):
    """The handler took longer than it may."""


class Stuck(TimeUp):
    """It also did not end when asked, and cannot be ended from outside."""


class NotKept:
    """Stands for the result of a handler that ran in a child process and whose result could not be kept."""

    def __init__(self, why: str) -> None:
        self.why = why


class Processes(Protocol):
    """Runs a handler in a child process; killed when cancelled, or with ``TimeUp`` after its time limit."""

    async def run(self, handler: Handler, ctx: Context) -> Any: ...
    def close(self) -> None: ...


def time_limit(handler: Handler, job: Job) -> float | None:
    """How many seconds an attempt may take."""
    limit = job.timeout or handler.timeout
    return None if limit is None else limit.total_seconds()


class Deadline:
    """When the time of an attempt is up, however many steps it takes."""

    def __init__(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.limit = timedelta(seconds=seconds)
        self._rung: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(seconds, self._rung.set_result, None)

    async def wait_for(self, running: Running) -> bool:
        """Wait for what runs, or for the end of its time; true when it has ended."""
        waiting: set[asyncio.Future[Any]] = {running, self._rung}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return running.done()

    def stop(self) -> None:
        self._timer.cancel()


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
            return Outcome("snoozed", error=_reason(snooze.reason), delay=snooze.delay)
        except Cancel as cancel:
            return Outcome("cancelled", error=_reason(cancel.reason) or "by its handler")
        except TimeUp as late:
            self.stuck += isinstance(late, Stuck)
            return await self._decided(handler, ctx.claimed, Outcome("timed_out", error=str(late)))
        except asyncio.CancelledError as problem:
            if is_cancelled_from_outside():
                raise
            ctx.problem = problem
            return await self._decided(handler, ctx.claimed, Outcome("failed", error=CANCELLED_ITSELF))
        except BaseException as problem:  # whatever a handler raises ends its attempt, never the worker
            if raised_by_signal(problem):
                raise
            ctx.problem = without_our_frames(problem) if is_printable(problem) else Uncaught(problem)
            return await self._decided(handler, ctx.claimed, Outcome("failed", error=error_text(problem)))
        return SUCCEEDED if result is None else self._succeeded(handler, result)

    async def _call(self, handler: Handler, ctx: Context) -> Any:
        if handler.executor == "process":
            return await self._processes.run(handler, ctx)
        arguments = ctx.claimed.payload if isinstance(ctx.claimed.payload, dict) else {"payload": ctx.claimed.payload}
        given = (ctx,) if handler.takes_context else ()
        limit = time_limit(handler, ctx.claimed)
        if handler.executor == "async" and limit is None:
            return await _called_async(handler, ctx, given, arguments)
        if limit is None:
            return await self._in_thread(handler, ctx, given, arguments, None)
        deadline = Deadline(limit)
        try:
            if handler.executor == "async":
                running = asyncio.ensure_future(contained(_called_async(handler, ctx, given, arguments)))
                return _result(await self._within(deadline, running, ctx))
            return await self._in_thread(handler, ctx, given, arguments, deadline)
        finally:
            deadline.stop()

    async def _in_thread(
        self,
        handler: Handler,
        ctx: Context,
        given: tuple[Any, ...],
        arguments: dict[str, Any],
        deadline: Deadline | None,
    ) -> Any:
        """Call a plain function in a thread; what it returns to be awaited, such as an async function behind a plain
        decorator does, is awaited on the loop.
        """
        ctx.in_thread = True
        submitted = self._threads.submit(lambda: caught(lambda: _called(handler, ctx, given, arguments)))
        answer = _result(await self._within(deadline, submitted, ctx))
        if not isinstance(answer, Unfinished):
            return answer
        ctx.in_thread = False
        if ctx.is_stopped:
            answer.drop()
            await _close_scope(ctx)
            raise asyncio.CancelledError
        work = contained(_called_on(handler, ctx, answer))
        running = asyncio.get_running_loop().create_task(work, context=answer.context)
        return _result(await self._within(deadline, running, ctx))

    async def _within(self, deadline: Deadline | None, running: Running, ctx: Context) -> Ended:
        """A handler's result, if it ends in time. One whose time is up is asked to end, then waited for a moment:
        neither a thread nor a coroutine that ignores its cancellation can be killed.
        """
        try:
            if deadline is None and isinstance(running, asyncio.Task):
                await asyncio.wait([running])
            elif deadline is None:
                return await running
            if deadline is None or await deadline.wait_for(running):
                return running.result()
        except asyncio.CancelledError:
            if running.done() and not is_cancelled_from_outside():
                raise  # the handler cancelled the task in which it runs
            return await _stopped(running, ctx)
        ctx.cancel()
        if isinstance(running, asyncio.Task):
            running.cancel()
        done, _ = await asyncio.wait([running], timeout=self._patience)
        running.add_done_callback(ignored)
        if done:
            raise TimeUp(f"timed_out: over {deadline.limit}")
        self._threads.give_up_one()
        raise Stuck(
            f"timed_out: over {deadline.limit}, and it did not end when asked; its worker finishes what "
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
            log.warning("decide of %s gave no answer (%s); its default applies", handler.name, error_line(silence))
            return outcome
        return replace(outcome, delay=verdict, final=verdict is None)

    async def _answer(self, decide: Callable[..., Any], job: Job, error: str) -> timedelta | None:
        submit = here if inspect.iscoroutinefunction(decide) else self._threads_for_a_while
        verdict, problem = await call_through("decide", lambda: decide(job, error), submit)
        if problem is not None:
            raise RuntimeError(error_line(problem)) from problem
        if verdict is None:
            return None
        return max(timedelta(0), verdict if isinstance(verdict, timedelta) else timedelta(seconds=verdict))

    async def _threads_for_a_while(self, work: Callable[[], Ended]) -> Ended:
        """In a thread that may never come back."""
        try:
            ended: Ended = await asyncio.shield(self._threads.submit(work))
        except asyncio.CancelledError:
            self._threads.give_up_one()
            raise
        return ended

    def _succeeded(self, handler: Handler, result: Any) -> Outcome:
        """What ran has run: a result that cannot be kept is told as an error of a job that succeeded."""
        if isinstance(result, NotKept):
            return self._without_result(handler, result.why)
        try:
            return Outcome("succeeded", result=encode(result, "result", self._max_result_bytes))
        except BaseException as problem:  # encoding runs code of the application where the result is of its own types
            if raised_by_signal(problem):
                raise
            why = str(problem) if isinstance(problem, InvalidPayload) else error_line(problem)
            return self._without_result(handler, why)

    def _without_result(self, handler: Handler, why: str) -> Outcome:
        log.warning("the result of %s is not kept: %s", handler.name, why)
        return Outcome("succeeded", error=truncate(not_kept(why)))


def _called(handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """The handler's answer; what was made for this run ends with it."""
    unfinished = False
    try:
        answer = handler.function(*given, **arguments)
        if type(answer) in PLAIN:
            return answer
        unfinished = is_awaitable(answer)
        return Unfinished(answer, contextvars.copy_context()) if unfinished else finished(handler.name, answer)
    finally:
        if "scope" in vars(ctx) and not unfinished:
            ctx.scope.close()


async def _called_async(handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    try:
        answer = handler.function(*given, **arguments)
        if type(answer) is CoroutineType:  # as a rule; everything else takes a closer look
            answer = await answer
        return answer if type(answer) in PLAIN else finished(handler.name, await awaited(answer))
    finally:
        if "scope" in vars(ctx):
            await ctx.scope.aclose()


async def _called_on(handler: Handler, ctx: Context, begun: Unfinished) -> Any:
    """The rest of a handler whose plain part ran in a thread."""
    try:
        return finished(handler.name, await awaited(begun.answer))
    finally:
        await _close_scope(ctx)


async def _close_scope(ctx: Context) -> None:
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


def _result(ended: Ended) -> Any:
    answer, problem = ended
    if problem is not None:
        raise problem
    return answer


def _reason(reason: object) -> str | None:
    """The reason of a snooze or a cancellation, as text that can be stored."""
    return truncate(reason if isinstance(reason, str) else repr(reason)) if reason else None


def ignored(late: asyncio.Future[Any]) -> None:
    """Swallow the result of an abandoned future."""
    if not late.cancelled() and late.exception() is None:
        ended = late.result()
        if isinstance(ended, tuple) and isinstance(ended[0], Unfinished):
            ended[0].drop()
