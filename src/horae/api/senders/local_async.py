"""Run operations in this process, in a few threads beside an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from horae.api.here import Here
from horae.api.operation import Call
from horae.api.senders.local import not_here, perform

T = TypeVar("T")


class Threads(Protocol):
    """Threads in which synchronous work is done for an event loop."""

    def __call__(self, work: Callable[[], Any], /) -> Awaitable[Any]: ...


class LocalAsync:
    """Does what operations ask for in *threads*, as the caller that *here* names."""

    is_async = True

    def __init__(self, here: Callable[[], Here], threads: Threads) -> None:
        self._here = here
        self._threads = threads

    async def send(self, call: Call[T]) -> T:
        answer: T = await self._threads(lambda: perform(self._here(), call))
        return answer

    def follow(self, call: Call[T]) -> AsyncIterator[T]:
        raise not_here(call)
