"""Endings, written in natural batches: while one batch is being committed, the next one gathers.

No timer, so nothing waits when the worker is idle; under load the batches fill by themselves. When the store does
not answer, the endings are kept and tried again until it does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from horae.actions.jobs import settle
from horae.core.jobs import Change, Job, Outcome
from horae.errors import StoreUnavailable
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.faults import Faults
from horae.runtime.loop import Backoff

MAX_BATCH = 500
log = logging.getLogger("horae.worker")
Settled = Callable[[Job, Outcome, Change | None], None]


class Settler:
    """Takes endings from handlers and tells, after the commit, whether each was accepted."""

    def __init__(self, world: World, database: DatabaseThreads, settled: Settled, faults: Faults) -> None:
        self._world = world
        self._database = database
        self._settled = settled
        self._faults = faults
        self._waiting: list[tuple[Job, Outcome]] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, job: Job, outcome: Outcome) -> None:
        self._waiting.append((job, outcome))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_on())

    async def drained(self) -> None:
        """Until everything handed in has been written."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write_on(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                changes = await self._write(batch)
                for job, outcome in batch:
                    self._settled(job, outcome, changes[job.id])
        finally:
            self._writing = None

    async def _write(self, batch: list[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        backoff = Backoff(self._world.dice)
        while True:
            self._faults.at("settle.before")
            try:
                changes = await self._database.call(lambda: settle(self._world, batch))
            except StoreUnavailable as problem:
                if not backoff.failures:
                    log.warning("%d endings wait for the store: %s", len(batch), problem)
                await backoff.pause()
                continue
            except Exception:
                if len(batch) > 1:
                    return await self._one_by_one(batch)
                log.exception("the ending of %s cannot be stored; its lease will run out", batch[0][0].id)
                return {batch[0][0].id: None}
            self._faults.at("settle.after")
            return changes

    async def _one_by_one(self, batch: list[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        """An ending the store refuses must not take its neighbours with it."""
        changes: dict[str, Change | None] = {}
        for ending in batch:
            changes |= await self._write([ending])
        return changes
