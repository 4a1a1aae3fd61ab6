"""A worker inside the application's process: it starts at once and works as soon as the store answers (C-17)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from horae.errors import StoreBusy, StoreFull, StoreUnavailable
from horae.ports.world import Dice
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Backoff
from horae.runtime.worker.worker import Worker

log = logging.getLogger("horae.worker")


class Hosted:
    """The worker that ``app.start()`` starts and ``app.running()`` yields."""

    def __init__(self, make: Callable[[], Worker], dice: Dice) -> None:
        self.worker: Worker | None = None
        self._make = make
        self._backoff = Backoff(dice)
        self._trouble: str | None = None
        self._thread = DatabaseThreads(1)
        self._task = asyncio.create_task(self._live(), name="horae-hosted")

    @property
    def trouble(self) -> str | None:
        """Why the worker is not fully ready: the store does not answer, or lacks the schedules; None if it is."""
        return self._trouble if self.worker is None else self.worker.declared.trouble

    @property
    def counts(self) -> Counter[str]:
        """The number of runs of this process by outcome."""
        return Counter() if self.worker is None else self.worker.counts

    async def _live(self) -> None:
        while self.worker is None:
            try:
                self.worker = await self._thread.call(self._make)
            except (StoreUnavailable, StoreBusy, StoreFull) as problem:
                if not self._backoff.failures:
                    log.error("the worker cannot start: the store does not answer; trying again: %s", problem)
                self._trouble = str(problem)
                await self._backoff.pause()
        self._thread.close()
        await self.worker.run()

    async def ready(self) -> None:
        """Wait until the store has answered or failed once; raise if the worker cannot start at all."""
        while self.worker is None and not self._task.done() and self._trouble is None:
            await asyncio.wait([self._task], timeout=0.01)
        if self._task.done():
            await self._task

    async def stop(self, grace: timedelta | None = None) -> None:
        """Stop: claim nothing more, wait for attempts up to the grace, cancel the rest and release them."""
        if self.worker is None:
            self._task.cancel()
            await asyncio.wait([self._task])
            return
        if grace is not None:
            self.worker.settings = replace(self.worker.settings, grace=grace)
        self.worker.stop()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:  # no time for the grace: release what runs
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if not self._task.cancelled():  # if it was interrupted instead, it has logged that
            self._task.result()
