"""Threads for handlers that are plain functions.

They are daemon threads, because a handler that never ends must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Work = tuple[asyncio.Future[Any], contextvars.Context, Callable[[], Any]]


class Threads:
    """A pool of up to *count* threads that never has to be joined."""

    def __init__(self, count: int, name: str = "horae-job") -> None:
        self._count = max(1, count)
        self._name = name
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()
        self._started = 0
        self._idle = 0
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run *work* in a thread; return a future of the running loop."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed:
                raise RuntimeError("this pool of threads is closed")
            grow = self._idle <= 0 and self._started < self._count
            if grow:
                self._started += 1
            else:
                self._idle -= 1
            name = f"{self._name}-{self._started}"
            self._waiting.put((future, contextvars.copy_context(), work))
        if grow:
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def give_up_one(self) -> None:
        """Allow one more thread, in place of one that may never finish."""
        with self._lock:
            self._count += 1

    def _serve(self) -> None:
        while (task := self._waiting.get()) is not None:
            future, context, work = task
            try:
                result, problem = context.run(work), None
            except BaseException as raised:
                result, problem = None, raised
            with self._lock:
                self._idle += 1
            _answer(future, result, problem)
            del task, future, context, work, result, problem  # an idle thread keeps nothing alive

    def close(self) -> None:
        """End idle threads now, and busy ones after their current work."""
        with self._lock:
            started, self._closed = (0 if self._closed else self._started), True
        for _ in range(started):
            self._waiting.put(None)


def _answer(future: asyncio.Future[Any], result: Any, problem: BaseException | None) -> None:
    def set_answer() -> None:
        if future.cancelled():
            return
        if problem is None:
            future.set_result(result)
        elif isinstance(problem, StopIteration):
            future.set_exception(RuntimeError(f"the handler raised StopIteration: {problem}"))
        else:
            future.set_exception(problem)

    loop = future.get_loop()
    if not loop.is_closed():
        try:
            loop.call_soon_threadsafe(set_answer)
        except RuntimeError:  # the loop was closed in between: no task waits for the result
            return
