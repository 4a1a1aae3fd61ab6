"""Answer what many attempts ask for in batches, each in one blocking call.

Attempts that a worker starts together ask together; what is asked while a call is under way waits for the next one. A
lone attempt waits for no other.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
MOST = 500  # answered by one call


class Call(Protocol):
    """Run a blocking call off the event loop."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Batches(Generic[Asked, Answer]):
    """*answer* blocks; it returns an answer, or an error to raise, for each of those who ask."""

    def __init__(self, answer: Callable[[Sequence[Asked]], Sequence[Answer | Exception]]) -> None:
        self._answer = answer
        self._waiting: list[tuple[Asked, asyncio.Future[Answer]]] = []
        self._serving: asyncio.Task[None] | None = None

    def ask(self, asked: Asked, call: Call) -> asyncio.Future[Answer]:
        """Return the future answer; who stops waiting for it is answered all the same."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._serving is None:  # in a context of its own: it serves others than the attempt that asked first
            serving = self._serve(call)
            self._serving = asyncio.create_task(serving, name="horae-batches", context=contextvars.Context())
        return future

    async def _serve(self, call: Call) -> None:
        batch: list[tuple[Asked, asyncio.Future[Answer]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                _tell(batch, await self._answers([each for each, _ in batch], call))
        except asyncio.CancelledError:  # the loop is about to end
            for _, future in (*batch, *self._waiting):
                future.cancel()
            raise
        finally:
            self._serving = None

    async def _answers(self, asked: Sequence[Asked], call: Call) -> Sequence[Answer | Exception]:
        try:
            return await call(lambda: self._answer(asked))
        except Exception as problem:
            return [problem] * len(asked)


def _tell(batch: Sequence[tuple[Asked, asyncio.Future[Answer]]], answers: Sequence[Answer | Exception]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if future.done():  # cancelled
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
