"""Carries out what a context asks for, in the worker's own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from horae.actions import jobs as verbs
from horae.core.jobs import Lease
from horae.ports import World
from horae.runtime.threads import Threads

T = TypeVar("T")


class AttemptPort:
    """The store, as one attempt may use it."""

    def __init__(self, world: World, threads: Threads) -> None:
        self._world = world
        self._threads = threads

    def progress(self, lease: Lease, value: Any) -> None:
        verbs.progress(self._world, lease, value)

    def checkpoint(self, lease: Lease, value: Any) -> None:
        verbs.checkpoint(self._world, lease, value)

    def once(self, lease: Lease, step: str, work: Callable[[Any], Any]) -> Any:
        return verbs.once(self._world, lease, step, work)

    async def call(self, work: Callable[[], T]) -> T:
        """Call in the handlers' threads: it may take long, and the worker's own calls must not wait for it."""
        answer: T = await self._threads.submit(work)
        return answer
