"""A worker inside somebody else's process: there at once, at work as soon as the store answers (C-17)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from horae.errors import StoreBusy, StoreFull, StoreUnavailable
from horae.ports import Dice
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Backoff
from horae.runtime.worker.worker import Worker

log = logging.getLogger("horae.worker")


class Hosted:
    """What ``app.start()`` starts and ``app.running()`` yields."""

    def __init__(self, make: Callable[[], Worker], dice: Dice) -> None:
        self.worker: Worker | None = None
        self._make = make
        self._backoff = Backoff(dice)
        self._trouble: str | None = None
        self._thread = DatabaseThreads(1)
        self._task = asyncio.create_task(self._live(), name="horae-hosted")

    @property
    def trouble(self) -> str | None:
        """Why this process is not fully at work: the store does not answer, or schedules are not in it yet."""
        return self._trouble if self.worker is None else self.worker.declared.trouble

    @property
    def counts(self) -> Counter[str]:
        """How the runs of this process ended so far."""
        return Counter() if self.worker is None else self.worker.counts

    async def _live(self) -> None:
        while self.worker is None:
            try:
                self.worker = await self._thread.call(self._make)
            except (StoreUnavailable, StoreBusy, StoreFull) as problem:
                if not self._backoff.failures:
                    log.error("nothing runs yet, the store does not answer; trying on: %s", problem)
                self._trouble = str(problem)
                await self._backoff.pause()
        self._thread.close()
        await self.worker.run()

    async def ready(self) -> None:
        """Until the store has answered once, or the attempt has failed for good."""
        while self.worker is None and not self._task.done() and self._trouble is None:
            await asyncio.wait([self._task], timeout=0.01)
        if self._task.done():
            await self._task

    async def stop(self, grace: timedelta | None = None) -> None:
        """Stop, in order: claim nothing more, wait up to the grace, cancel, give back."""
        if self.worker is None:
            self._task.cancel()
            await asyncio.wait([self._task])
            return
        if grace is not None:
            self.worker.settings = replace(self.worker.settings, grace=grace)
        self.worker.stop()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:  # no time for an end in order: what runs is given back
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if not self._task.cancelled():  # else code that it ran interrupted it, which it has said
            self._task.result()
