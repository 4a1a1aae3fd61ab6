"""Run operations in this process, in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from horae.api.here import Here
from horae.api.operation import Call
from horae.api.values import published
from horae.errors import NotAllowed

T = TypeVar("T")
LOOKING = "GET"


class Local:
    """Does what operations ask for, as the caller that *here* names."""

    is_async = False

    def __init__(self, here: Callable[[], Here]) -> None:
        self._here = here  # called at each operation, so that nothing is opened before it is needed

    def send(self, call: Call[T]) -> T:
        return perform(self._here(), call)

    def follow(self, call: Call[T]) -> Iterator[T]:
        raise not_here(call)


def perform(here: Here, call: Call[T]) -> T:
    """Check what the caller may do, do it, and publish the result."""
    if call.needs is not None:
        looking = ("read",) if call.method == LOOKING else ()
        here.caller.require(*call.needs.scopes, *looking)
        if not call.needs.by_queue:
            here.caller.require_all_queues()
    if call.verb is None:
        raise not_here(call)
    answer: T = published(call.answer, call.verb(here))
    return answer


def not_here(call: Call[Any]) -> NotAllowed:
    return NotAllowed(f"{call.method} {call.path} is answered by a service only; ask one with horae.Client.")
