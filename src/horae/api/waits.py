"""Operations that wait: a call is repeated until its answer is final, or until the caller's time is over.

A service holds each round open for a while (a long poll); in this process a round answers at once. Rounds begin at
least a short pause apart, so that neither a database nor a service that answers at once is asked in a busy loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any, Concatenate, Generic, Protocol

from horae.api.operation import Call, Method, Needs, P, T
from horae.core.dataclass import dataclass
from horae.core.time.spans import Span, span
from horae.errors import HoraeError, InvalidInput

WAIT_TIMEOUT = timedelta(minutes=5)  # of a wait, unless the caller gives one
LONGEST_ROUND = 20.0  # seconds for which a service is asked to hold one call open; proxies cut off after a minute
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds between the beginnings of two rounds: short at first, then longer


def check_timeout(timeout: Span) -> float:
    """Return the timeout of a wait in seconds; refuse one below zero."""
    seconds = span(timeout).total_seconds()
    if seconds < 0:
        raise InvalidInput("wait_timeout_negative", timeout=seconds)
    return seconds


@dataclass(frozen=True)
class Wait(Generic[T]):
    """A wait: the call to repeat, when its answer is final, and the error if it is not final in time."""

    round: Callable[[float], Call[Any]]  # one call that a service may hold open for so many seconds
    is_final: Callable[[Any], bool]
    overdue: Callable[[Any], HoraeError]
    timeout: float  # seconds
    finish: Callable[[Any], T] | None = None  # makes the answer of the last one; None: it is the answer


class PausingSender(Protocol):
    """Runs operations, and can wait in this thread between them."""

    def send(self, call: Call[T]) -> T: ...
    def monotonic(self) -> float: ...
    def pause(self, seconds: float) -> None: ...


class AsyncPausingSender(Protocol):
    """Runs operations, and can wait between them while the event loop goes on."""

    def send(self, call: Call[T]) -> Coroutine[Any, Any, T]: ...
    def monotonic(self) -> float: ...
    def pause(self, seconds: float) -> Coroutine[Any, Any, None]: ...


class Rounds(Generic[T]):
    """The rounds of one wait: how long each may last, and how long to pause before the next."""

    def __init__(self, wait: Wait[T], monotonic: Callable[[], float]) -> None:
        self._wait, self._monotonic = wait, monotonic
        self._began = self._round_began = monotonic()
        self._paused, self._pause = 0.0, FIRST_PAUSE

    def next_call(self) -> Call[Any]:
        self._round_began = self._monotonic()
        return self._wait.round(min(max(self._left(), 0.0), LONGEST_ROUND))

    def pause_after(self, answer: Any) -> float:
        """Return how long to pause before the next round; raise where no time is left."""
        left = self._left()
        if left <= 0:
            raise self._wait.overdue(answer)
        lasted = self._monotonic() - self._round_began
        pause = min(max(self._pause - lasted, 0.0), left)
        self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
        self._paused += pause
        return pause

    def _left(self) -> float:
        """Return the seconds left. Pauses count by themselves, should the clock stand still meanwhile."""
        return self._wait.timeout - max(self._monotonic() - self._began, self._paused)


def run_wait(sender: PausingSender, wait: Wait[T]) -> T:
    rounds = Rounds(wait, sender.monotonic)
    while not wait.is_final(answer := sender.send(rounds.next_call())):
        sender.pause(rounds.pause_after(answer))
    return _finish(wait, answer)


async def run_wait_async(sender: AsyncPausingSender, wait: Wait[T]) -> T:
    rounds = Rounds(wait, sender.monotonic)
    while not wait.is_final(answer := await sender.send(rounds.next_call())):
        await sender.pause(rounds.pause_after(answer))
    return _finish(wait, answer)


def _finish(wait: Wait[T], answer: Any) -> T:
    found: T = answer if wait.finish is None else wait.finish(answer)
    return found


class Awaited(Method[P, Wait[T], T, Coroutine[Any, Any, T]]):
    """Describes what to wait for, and waits."""

    def _run(self, sender: Any, built: Wait[T]) -> Any:
        wait = replace(built, round=lambda seconds: self._address(built.round(seconds)))
        return run_wait_async(sender, wait) if sender.is_async else run_wait(sender, wait)


def WAIT(
    path: str, *scopes: str, by_queue: bool = False
) -> Callable[[Callable[Concatenate[Any, P], Wait[T]]], Awaited[P, T]]:
    return functools.partial(Awaited, "GET", path, Needs(scopes, by_queue))
