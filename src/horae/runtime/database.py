"""The few threads on which asyncio code calls the verbs, which are plain and synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class DatabaseThreads:
    def __init__(self, count: int = 4, name: str = "horae-db") -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def call(self, work: Callable[[], T]) -> T:
        return await self.submit(work)

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a call; no task that could be cancelled stands behind the answer."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
