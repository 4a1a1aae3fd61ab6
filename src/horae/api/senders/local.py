"""Run operations in this process, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from horae.actions.hints import subscribe
from horae.api.here import Here
from horae.api.operation import Call, Tail
from horae.api.values import published
from horae.errors import NotAllowed

T = TypeVar("T")
LOOKING = "GET"
LOOK_AGAIN = 1.0  # seconds; hints may be lost, and a driver does not announce its own commits


class Local:
    """Does what operations ask for, as the caller that *here* names."""

    is_async = False

    def __init__(self, here: Callable[[], Here]) -> None:
        self._here = here  # called at each operation, so that nothing is opened before it is needed

    def send(self, call: Call[T]) -> T:
        return perform(self._here(), call)

    def monotonic(self) -> float:
        return self._here().world.clock.monotonic()

    def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def follow(self, call: Call[T]) -> Iterator[T]:
        here, hinted = self._here(), threading.Event()
        tail = tail_of(here, call)
        unsubscribe = subscribe(here.world, lambda hint: hinted.set() if tail.is_announced_by(hint) else None)
        try:
            while True:
                hinted.clear()
                values = brought(tail, call)
                yield from values
                if not values:
                    hinted.wait(LOOK_AGAIN)
        finally:
            unsubscribe()


def perform(here: Here, call: Call[T]) -> T:
    """Check what the caller may do, do it, and publish the result."""
    answer: T = published(call.answer, _permitted(here, call)(here))
    return answer


def tail_of(here: Here, call: Call[Any]) -> Tail:
    """Begin a stream, if the caller may have it."""
    tail: Tail = _permitted(here, call)(here)
    return tail


def brought(tail: Tail, call: Call[T]) -> tuple[T, ...]:
    """Return what a stream has brought since it was asked last."""
    return tuple(published(call.answer, each) for each in tail.read())


def _permitted(here: Here, call: Call[T]) -> Callable[[Here], Any]:
    """Return the verb of an operation, if the caller may use it."""
    if call.needs is not None:
        looking = ("read",) if call.method == LOOKING else ()
        here.caller.require(*call.needs.scopes, *looking)
        if not call.needs.by_queue:
            here.caller.require_all_queues()
    if call.verb is None:
        raise not_here(call)
    return call.verb


def not_here(call: Call[Any]) -> NotAllowed:
    return NotAllowed(f"{call.method} {call.path} is answered by a service only; ask one with horae.Client.")
