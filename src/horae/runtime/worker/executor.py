"""Call the handler of one job and return the outcome.

Async handlers run on the loop, sync ones in threads, those declared ``executor="process"`` in a child process that can
be killed, and those of a remote executor on its cluster. Every way a handler can end becomes an ``Outcome``; its
exceptions do not leave this module.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from types import CoroutineType
from typing import Any, Protocol

from horae.actions.jobs.jobs import truncate
from horae.core.jobs.job import Job, Outcome, not_kept
from horae.core.jobs.outcomes import Cancel, Snooze
from horae.core.jobs.payloads import encode
from horae.errors import ConfigurationError, InvalidPayload
from horae.ports.locks import Limiter
from horae.runtime.worker.calls import (
    PLAIN,
    Ended,
    Uncaught,
    Unfinished,
    await_fully,
    call_here,
    call_through,
    catch,
    contain,
    is_awaitable,
    is_cancelled_from_outside,
    raised_by_signal,
    refuse_generator,
)
from horae.runtime.worker.context import Context
from horae.runtime.worker.retry_types import TIMED_OUT, is_ruled_out
from horae.runtime.worker.threads import Threads
from horae.runtime.worker.tracebacks import error_line, error_text, is_printable, without_our_frames

log = logging.getLogger("horae.worker")
SUCCEEDED = Outcome("succeeded")
CANCELLED_ITSELF = "CancelledError: the handler cancelled itself"
HERE = ("async", "thread")  # executors in the worker's own process
PATIENCE = timedelta(seconds=5)  # for a handler to end after its time limit, as it cannot be killed


class Handler(Protocol):
    """The parts of a definition that the runtime needs."""

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
        """Whether it is open to tenants' jobs."""


Running = asyncio.Future[Ended]
Resolve = Callable[[str], Handler | None]  # a handler by name; None if this process has none


class TimeUp(Exception):
    """The handler exceeded its time limit."""


class Stuck(TimeUp):
    """The handler exceeded its time limit and did not end when asked; its thread cannot be killed."""


class NotKept:
    """Replaces the result of a handler in a child process that could not be stored."""

    def __init__(self, why: str) -> None:
        self.why = why


class Processes(Protocol):
    """Run handlers in child processes; kill one on cancellation, or with ``TimeUp`` after its time limit."""

    async def run(self, handler: Handler, ctx: Context) -> Any: ...
    def close(self) -> None: ...


class Remotes(Protocol):
    """Run handlers outside this worker, on a cluster."""

    async def run(self, handler: Handler, ctx: Context) -> Any: ...


def time_limit(handler: Handler, job: Job) -> float | None:
    """Return the time limit of an attempt in seconds; None without a limit."""
    limit = job.timeout or handler.timeout
    return None if limit is None else limit.total_seconds()


class Deadline:
    """The time limit of one attempt, shared by all its steps."""

    def __init__(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.limit = timedelta(seconds=seconds)
        self._rung: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(seconds, self._rung.set_result, None)

    async def wait_for(self, running: Running) -> bool:
        """Wait for the step or for the deadline; return whether the step has ended."""
        waiting: set[asyncio.Future[Any]] = {running, self._rung}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return running.done()

    def stop(self) -> None:
        self._timer.cancel()


class Executor:
    """Run the handlers of one worker."""

    def __init__(
        self,
        threads: Threads,
        processes: Processes,
        max_result_bytes: int,
        patience: timedelta = PATIENCE,
        remotes: Remotes | None = None,
    ) -> None:
        self._threads = threads
        self._processes = processes
        self._remotes = remotes
        self._max_result_bytes = max_result_bytes
        self._patience = min(patience, PATIENCE).total_seconds()
        self.stuck = 0

    async def run(self, handler: Handler, ctx: Context) -> Outcome:
        """Run one attempt and return its outcome; a cancellation from outside passes through to the worker."""
        job = ctx.claimed
        try:
            if handler.executor == "async" and handler.timeout is None and not job.timeout:
                # The usual handler is awaited here: each coroutine around it would cost every attempt a frame.
                arguments = _arguments(job)
                try:
                    result = (
                        handler.function(ctx, **arguments) if handler.takes_context else handler.function(**arguments)
                    )
                    if type(result) is CoroutineType:
                        result = await result
                    if type(result) not in PLAIN:
                        result = refuse_generator(handler.name, await await_fully(result))
                finally:
                    if ctx.has_scope:
                        await ctx.scope.aclose()
            else:
                result = await self._call(handler, ctx)
        except Snooze as snooze:
            return Outcome("snoozed", error=_reason(snooze.reason), delay=snooze.delay)
        except Cancel as cancel:
            return Outcome("cancelled", error=_reason(cancel.reason) or "by its handler")
        except TimeUp as late:
            self.stuck += isinstance(late, Stuck)
            return await self._ask_retry_policy(handler, job, Outcome("timed_out", error=str(late)), TIMED_OUT)
        except asyncio.CancelledError as problem:
            if is_cancelled_from_outside():
                raise
            ctx.problem = problem
            ended = Outcome("failed", error=CANCELLED_ITSELF)
            return await self._ask_retry_policy(handler, job, ended, problem)
        except BaseException as problem:  # whatever a handler raises ends its attempt, never the worker
            if raised_by_signal(problem):
                raise
            ctx.problem = without_our_frames(problem) if is_printable(problem) else Uncaught(problem)
            ended = Outcome("failed", error=error_text(problem))
            return await self._ask_retry_policy(handler, job, ended, problem)
        return SUCCEEDED if result is None else self._encode_result(handler, result)

    def _call(self, handler: Handler, ctx: Context) -> Awaitable[Any]:
        """Return the call of a handler that has a time limit or does not run on the loop, to be awaited."""
        if handler.executor not in HERE:
            return self._elsewhere(handler, ctx)
        given, arguments = (ctx,) if handler.takes_context else (), _arguments(ctx.claimed)
        limit = time_limit(handler, ctx.claimed)
        if limit is not None:
            return self._call_within(limit, handler, ctx, given, arguments)
        return self._in_thread(handler, ctx, given, arguments, None)

    def _elsewhere(self, handler: Handler, ctx: Context) -> Awaitable[Any]:
        if handler.executor == "process":
            return self._processes.run(handler, ctx)
        if self._remotes is None:
            raise ConfigurationError("executor_not_here", handler=handler.name, executor=handler.executor)
        return self._remotes.run(handler, ctx)

    async def _call_within(
        self, limit: float, handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]
    ) -> Any:
        deadline = Deadline(limit)
        try:
            if handler.executor == "async":
                running = asyncio.ensure_future(contain(_call_async(handler, ctx, given, arguments)))
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
        """Call a plain function in a thread; await on the loop what it returns, such as a wrapped async function."""
        ctx.in_thread = True
        submitted = self._threads.submit(lambda: catch(lambda: _call_sync(handler, ctx, given, arguments)))
        answer = _result(await self._within(deadline, submitted, ctx))
        if not isinstance(answer, Unfinished):
            return answer
        ctx.in_thread = False
        if ctx.is_stopped:
            answer.drop()
            await _close_scope(ctx)
            raise asyncio.CancelledError
        work = contain(_await_rest(handler, ctx, answer))
        running = asyncio.get_running_loop().create_task(work, context=answer.context)
        return _result(await self._within(deadline, running, ctx))

    async def _within(self, deadline: Deadline | None, running: Running, ctx: Context) -> Ended:
        """Return a handler's result if it ends before the deadline; otherwise ask it to end and raise ``TimeUp``.

        It gets a moment to end: neither a thread nor a coroutine that ignores its cancellation can be killed.
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
                raise  # the handler cancelled its own task
            return await _cancel_and_wait(running, ctx)
        ctx.cancel()
        if isinstance(running, asyncio.Task):
            running.cancel()
        done, _ = await asyncio.wait([running], timeout=self._patience)
        running.add_done_callback(ignore_result)
        if done:
            raise TimeUp(f"timed_out: over {deadline.limit}")
        self._threads.give_up_one()
        raise Stuck(
            f"timed_out: over {deadline.limit}, and it did not end when asked; its worker finishes its other jobs "
            "and ends, to be replaced. Check ctx.cancelled in long handlers, or declare executor='process'"
        )

    async def _ask_retry_policy(self, handler: Handler, job: Job, outcome: Outcome, problem: BaseException) -> Outcome:
        """Let the policy judge the type of the exception, then an external one decide whether and when to try again.

        Its default applies after the deadline.
        """
        if is_ruled_out(job.retry, problem):
            return replace(outcome, final=True)
        if handler.decide is None:
            return outcome
        try:
            async with asyncio.timeout(job.retry.deadline.total_seconds()):
                verdict = await self._answer(handler.decide, job, outcome.error or "")
        except Exception as problem:
            log.warning("decide of %s failed (%s); its default applies", handler.name, error_line(problem))
            return outcome
        return replace(outcome, delay=verdict, final=verdict is None)

    async def _answer(self, decide: Callable[..., Any], job: Job, error: str) -> timedelta | None:
        submit = call_here if inspect.iscoroutinefunction(decide) else self._threads_for_a_while
        verdict, problem = await call_through("decide", lambda: decide(job, error), submit)
        if problem is not None:
            raise RuntimeError(error_line(problem)) from problem
        if verdict is None:
            return None
        return max(timedelta(0), verdict if isinstance(verdict, timedelta) else timedelta(seconds=verdict))

    async def _threads_for_a_while(self, work: Callable[[], Ended]) -> Ended:
        """Run in a thread; if the caller is cancelled first, the pool gives the thread up."""
        try:
            ended: Ended = await asyncio.shield(self._threads.submit(work))
        except asyncio.CancelledError:
            self._threads.give_up_one()
            raise
        return ended

    def _encode_result(self, handler: Handler, result: Any) -> Outcome:
        """Return the outcome of a success; a result that cannot be stored is noted as its error, without a retry."""
        if isinstance(result, NotKept):
            return self._without_result(handler, result.why)
        try:
            return Outcome("succeeded", result=encode(result, "result", self._max_result_bytes))
        except BaseException as problem:  # encoding may call code of the application's own types
            if raised_by_signal(problem):
                raise
            why = str(problem) if isinstance(problem, InvalidPayload) else error_line(problem)
            return self._without_result(handler, why)

    def _without_result(self, handler: Handler, why: str) -> Outcome:
        log.warning("the result of %s cannot be stored: %s", handler.name, why)
        return Outcome("succeeded", error=truncate(not_kept(why)))


def _arguments(job: Job) -> dict[str, Any]:
    payload = job.payload
    return payload if isinstance(payload, dict) else {"payload": payload}


def _call_sync(handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    """Call the handler, then close the dependencies made for this run."""
    unfinished = False
    try:
        answer = handler.function(*given, **arguments)
        if type(answer) in PLAIN:
            return answer
        unfinished = is_awaitable(answer)
        return Unfinished(answer, contextvars.copy_context()) if unfinished else refuse_generator(handler.name, answer)
    finally:
        if ctx.has_scope and not unfinished:
            ctx.scope.close()


async def _call_async(handler: Handler, ctx: Context, given: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
    try:
        answer = handler.function(*given, **arguments)
        if type(answer) is CoroutineType:  # the usual case, without further checks
            answer = await answer
        return answer if type(answer) in PLAIN else refuse_generator(handler.name, await await_fully(answer))
    finally:
        if ctx.has_scope:
            await ctx.scope.aclose()


async def _await_rest(handler: Handler, ctx: Context, begun: Unfinished) -> Any:
    """Await the rest of a handler whose plain part ran in a thread."""
    try:
        return refuse_generator(handler.name, await await_fully(begun.answer))
    finally:
        await _close_scope(ctx)


async def _close_scope(ctx: Context) -> None:
    if ctx.has_scope:
        await ctx.scope.aclose()


async def _cancel_and_wait(running: Running, ctx: Context) -> Ended:
    """Pass a cancellation on to the handler and wait for it, however long it shields itself."""
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
    """Return the reason of a snooze or a cancellation as text that can be stored."""
    return truncate(reason if isinstance(reason, str) else repr(reason)) if reason else None


def ignore_result(late: asyncio.Future[Any]) -> None:
    """Swallow the result of an abandoned future."""
    if not late.cancelled() and late.exception() is None:
        ended = late.result()
        if isinstance(ended, tuple) and isinstance(ended[0], Unfinished):
            ended[0].drop()
