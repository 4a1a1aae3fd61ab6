"""Run operations in this process, in a few threads beside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol, TypeVar

from horae.actions.hints import subscribe
from horae.api.here import Here
from horae.api.operation import Call, Tail
from horae.api.senders.local import POLL_SECONDS, open_download, open_tail, perform, read_tail
from horae.api.values import to_public

T = TypeVar("T")
AT_ONCE = 500  # values of a long answer


class Threads(Protocol):
    """Threads that do synchronous work for an event loop."""

    def __call__(self, work: Callable[[], Any], /) -> Awaitable[Any]: ...


class LocalAsync:
    """Run operations in *threads*, as the caller that *here* names."""

    is_async = True

    def __init__(self, here: Callable[[], Here], threads: Threads) -> None:
        self._here = here
        self._threads = threads

    async def send(self, call: Call[T]) -> T:
        answer: T = await self._threads(lambda: perform(self._here(), call))
        return answer

    def monotonic(self) -> float:
        return self._here().world.clock.monotonic()

    async def pause(self, seconds: float) -> None:
        await self._here().world.clock.pause_async(seconds)

    async def download(self, call: Call[T]) -> AsyncIterator[T]:
        """Iterate over an answer; each batch of it is read in a thread, which is free in between."""
        here: Here = await self._threads(self._here)
        values = await self._threads(lambda: open_download(here, call))
        while batch := await self._threads(lambda: tuple(islice(values, AT_ONCE))):
            for value in batch:
                yield to_public(call.answer, value)

    async def follow(self, call: Call[T]) -> AsyncIterator[T]:
        """Iterate over a stream; no thread is held while there is nothing to read."""
        here: Here = await self._threads(self._here)
        tail: Tail = await self._threads(lambda: open_tail(here, call))
        hinted, loop = asyncio.Event(), asyncio.get_running_loop()

        def hear(hint: str) -> None:
            if tail.is_announced_by(hint):
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(hinted.set)

        unsubscribe = subscribe(here.world, hear)
        try:
            while True:
                hinted.clear()
                values: tuple[T, ...] = await self._threads(lambda: read_tail(tail, call))
                for value in values:
                    yield value
                if not values:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(hinted.wait(), POLL_SECONDS)
        finally:
            unsubscribe()
