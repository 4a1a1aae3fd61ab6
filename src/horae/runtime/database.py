"""Threads on which asyncio code calls the verbs, which are synchronous.

They are daemon threads, so that a store that does not answer cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from horae.runtime.worker.threads import Threads

T = TypeVar("T")


class DatabaseThreads:
    """A few threads for calls that block on the store."""

    def __init__(self, count: int = 4, name: str = "horae-db") -> None:
        self._threads = Threads(count, name=name)

    async def call(self, work: Callable[[], T]) -> T:
        return await self.submit(work)

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start a call and return its future; cancelling the caller's task does not stop the call."""
        return self._threads.submit(work)

    def give_up_one(self) -> None:
        """Allow one more thread, in place of one that may never finish."""
        self._threads.give_up_one()

    def close(self) -> None:
        self._threads.close()
