"""The few threads on which asyncio code calls the verbs, which are plain and synchronous.

Daemon threads, so that a store that does not answer cannot keep the process from ending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from horae.runtime.threads import Threads

T = TypeVar("T")


class DatabaseThreads:
    def __init__(self, count: int = 4) -> None:
        self._threads = Threads(count, name="horae-db")

    async def call(self, work: Callable[[], T], *, abandoned: Callable[[T], None] | None = None) -> T:
        """Run *work* in a thread. If the caller is cancelled first, pass the late result to *abandoned*."""
        future: asyncio.Future[T] = self._threads.submit(work)
        if abandoned is None:
            return await future
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(lambda late: late.exception() or abandoned(late.result()))
            raise

    def close(self) -> None:
        self._threads.close()
