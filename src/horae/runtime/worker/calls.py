"""Call code of the application: return what it raises as a value, and make sure that what it returns has run.

Some exceptions have a meaning for asyncio: ``CancelledError`` ends a task, ``SystemExit`` the whole loop. Raised by a
handler they are failures like any other; only a real signal, or a cancellation from outside, passes through.
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
from typing import Any

from horae.core.dataclass import dataclass
from horae.errors import HandlerFailed
from horae.runtime.worker.tracebacks import error_line

Ended = tuple[Any, BaseException | None]  # a return value or an exception
Submit = Callable[[Callable[[], Ended]], Awaitable[Ended]]  # runs a function off the event loop
PLAIN = frozenset({type(None), bool, int, float, str, dict, list, tuple})  # never awaitable: a quick check
RAISE = dis.opmap["RAISE_VARARGS"]


class Uncaught(Exception):
    """Replaces an exception of the application that is not safe to pass on: no ``Exception``, or unprintable."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__(error_line(problem))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An awaitable that a plain function returned, and the context variables that the function set."""

    answer: Awaitable[Any]
    context: contextvars.Context

    def drop(self) -> None:
        """Discard the awaitable without Python's warning that it was never awaited."""
        if inspect.iscoroutine(self.answer):
            self.answer.close()


def catch(work: Callable[[], Any]) -> Ended:
    """Call a function and return its result or its exception; for calls in threads."""
    try:
        return work(), None
    except BaseException as problem:
        return None, problem


def begin(
    name: str,
    function: Callable[..., Any],
    given: tuple[Any, ...],
    arguments: dict[str, Any],
    close: Callable[[], None],
) -> tuple[bool, Any]:
    """Call a function that is not declared async, and *close* where that was all.

    Return whether it has ended, and its result; else what is to be awaited, None where it was not called yet.
    """
    if inspect.iscoroutinefunction(function):
        return False, None
    begun: Any = None
    try:
        begun = function(*given, **arguments)
        return (False, begun) if is_awaitable(begun) else (True, refuse_generator(name, begun))
    finally:
        if not is_awaitable(begun):
            close()


async def contain(work: Awaitable[Any]) -> Ended:
    """Await in a task of its own and return result or exception; a cancellation from outside passes through."""
    try:
        return await work, None
    except asyncio.CancelledError as problem:
        if is_cancelled_from_outside():
            raise
        return None, problem
    except BaseException as problem:
        return None, problem


def is_cancelled_from_outside() -> bool:
    """Return whether the current task was cancelled; if not, its own code raised ``CancelledError``."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_awaitable(answer: Any) -> bool:
    return type(answer) not in PLAIN and inspect.isawaitable(answer)


async def await_fully(answer: Any) -> Any:
    """Await an answer until it is a plain value: a decorator may return a coroutine of a coroutine."""
    while is_awaitable(answer):
        answer = await answer
    return answer


def refuse_generator(name: str, answer: Any) -> Any:
    """Return the answer; raise ``HandlerFailed`` for a generator, because none of its code has run."""
    if type(answer) in PLAIN or not (inspect.isgenerator(answer) or inspect.isasyncgen(answer)):
        return answer
    raise HandlerFailed("generator_returned", name=name)


async def call_here(work: Callable[[], Ended]) -> Ended:
    """Call on the event loop: making a coroutine needs no thread."""
    return work()


async def call_through(name: str, work: Callable[[], Any], submit: Submit) -> Ended:
    """Call a plain or async function: off the loop through *submit*, then await on the loop what it returned.

    Raises only for a cancellation from outside, or a real signal.
    """
    answer, problem = await submit(lambda: catch(work))
    if problem is None and is_awaitable(answer):
        try:
            answer, problem = await asyncio.ensure_future(contain(await_fully(answer)))
        except asyncio.CancelledError as cancelled:
            if is_cancelled_from_outside():
                raise
            answer, problem = None, cancelled
    if problem is None:
        return catch(lambda: refuse_generator(name, answer))
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
