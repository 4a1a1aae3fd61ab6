"""Calling code of the application: whatever it raises comes back as a value, and whatever it returns has really run.

Some exceptions mean something else to whoever awaits them: ``CancelledError`` ends a task, ``SystemExit`` the whole
loop. Raised by a handler they are failures like any other; only a real signal, or a cancellation from outside, may
pass.
"""

from __future__ import annotations

import asyncio
import contextvars
import dis
import inspect
import signal
import threading
import types
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from horae.errors import HandlerFailed
from horae.runtime.worker.tracebacks import error_line

Ended = tuple[Any, BaseException | None]  # what some code returned or raised
Submit = Callable[[Callable[[], Ended]], Awaitable[Ended]]  # runs a function off the event loop
PLAIN = frozenset({type(None), bool, int, float, str, dict, list, tuple})  # can be no awaitable: asked for quickly
RAISE = dis.opmap["RAISE_VARARGS"]


class Uncaught(Exception):
    """Stands for what code of the application raised and nobody can be trusted with: not an ``Exception`` at all, or
    one that cannot be printed.
    """

    def __init__(self, problem: BaseException) -> None:
        super().__init__(error_line(problem))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What a plain function returned that must still be awaited, and the context variables that it set."""

    answer: Awaitable[Any]
    context: contextvars.Context

    def drop(self) -> None:
        """Never await it, without a warning that nobody did."""
        if inspect.iscoroutine(self.answer):
            self.answer.close()


def caught(work: Callable[[], Any]) -> Ended:
    """Call a function, in a thread."""
    try:
        return work(), None
    except BaseException as problem:
        return None, problem


async def contained(work: Awaitable[Any]) -> Ended:
    """Await something in a task of its own. A cancellation from outside passes through."""
    try:
        return await work, None
    except asyncio.CancelledError as problem:
        if is_cancelled_from_outside():
            raise
        return None, problem
    except BaseException as problem:
        return None, problem


def is_cancelled_from_outside() -> bool:
    """Return whether somebody asked the current task to end; if not, its own code raised ``CancelledError``."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_awaitable(answer: Any) -> bool:
    return type(answer) not in PLAIN and inspect.isawaitable(answer)


async def awaited(answer: Any) -> Any:
    """Await an answer until it is a value: a decorator may have forgotten to."""
    while is_awaitable(answer):
        answer = await answer
    return answer


def finished(name: str, answer: Any) -> Any:
    """Return the answer, unless it is a generator: then none of the code behind it has run."""
    if type(answer) in PLAIN or not (inspect.isgenerator(answer) or inspect.isasyncgen(answer)):
        return answer
    raise HandlerFailed("generator_returned", name=name)


async def here(work: Callable[[], Ended]) -> Ended:
    """Call on the loop what only makes a coroutine: that needs no thread."""
    return work()


async def call_through(name: str, work: Callable[[], Any], submit: Submit) -> Ended:
    """Call what may be plain or async: off the loop through *submit*, and on the loop what it returns to be awaited.

    Raises only for a cancellation from outside, or a real signal.
    """
    answer, problem = await submit(lambda: caught(work))
    if problem is None and is_awaitable(answer):
        try:
            answer, problem = await asyncio.ensure_future(contained(awaited(answer)))
        except asyncio.CancelledError as cancelled:
            if is_cancelled_from_outside():
                raise
            answer, problem = None, cancelled
    if problem is None:
        return caught(lambda: finished(name, answer))
    if raised_by_signal(problem):
        raise problem
    return None, problem


def is_generator_function(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def raised_by_signal(problem: BaseException) -> bool:
    """Return whether a real signal raised this, such as Ctrl-C, and not the code that happened to be running.

    Python runs signal handlers in the main thread, wherever that is at the moment. One written in Python leaves its
    frame in the traceback; the built-in one for Ctrl-C leaves none, and needs no ``raise`` statement.
    """
    if not isinstance(problem, KeyboardInterrupt | SystemExit):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    frames = list(_frames(problem.__traceback__))
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    if any(frame.tb_frame.f_code in handlers for frame in frames):
        return True
    if not isinstance(problem, KeyboardInterrupt) or not frames:
        return False
    last = frames[-1]
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return by_default and last.tb_frame.f_code.co_code[last.tb_lasti] != RAISE


def _frames(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _code_of(handler: Any) -> types.CodeType | None:
    """Return the code of a signal handler, behind whatever it is wrapped in; None for a built-in one."""
    while hasattr(handler, "func"):  # functools.partial, as asyncio installs it
        handler = handler.func
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    return code if isinstance(code, types.CodeType) else None
