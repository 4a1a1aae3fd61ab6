"""Endings, written in natural batches: while one batch is being committed, the next one gathers.

No timer, so nothing waits when the worker is idle; under load the batches fill by themselves. When the store does
not answer, the endings are kept and tried again until it does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from horae.actions.jobs import settle, shown
from horae.core.jobs import Change, Job, Outcome
from horae.errors import SchemaMissing, SchemaTooNew, StoreBusy, StoreFull, StoreUnavailable
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.faults import Faults
from horae.runtime.loop import Backoff

MAX_BATCH = 500
MAX_WAITS = 2  # endings of one batch that may each wait for a locked row
AWAY = (StoreUnavailable, StoreBusy, StoreFull, SchemaMissing, SchemaTooNew)  # the store's trouble, not the ending's
log = logging.getLogger("horae.worker")
Ending = tuple[Job, Outcome]
Settled = Callable[[Job, Outcome, Change | None], None]


class Settler:
    """Takes endings from handlers and tells, after the commit, whether each was accepted."""

    def __init__(self, world: World, database: DatabaseThreads, settled: Settled, faults: Faults) -> None:
        self._world = world
        self._database = database
        self._settled = settled
        self._faults = faults
        self._waiting: list[Ending] = []
        self._locked: list[Ending] = []
        self._writing: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._backoff = Backoff(world.dice)

    def add(self, job: Job, outcome: Outcome) -> None:
        self._waiting.append((job, outcome))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_on())

    async def drained(self, limit: timedelta) -> bool:
        """Until everything handed in has been written; false when the store did not come back in time."""
        try:
            async with asyncio.timeout(limit.total_seconds()):
                while tasks := self._tasks():
                    await asyncio.wait(tasks)
        except TimeoutError:
            for task in self._tasks():
                task.cancel()
            return False
        return True

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for task in (self._writing, self._retrying) if task is not None]

    async def _write_on(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                left = await self._write_and_tell(batch)
                if len(left) == len(batch):  # nothing could be written: the store is away
                    tried = MAX_WAITS + 1  # or the first few are locked: begin with others next time
                    self._waiting = left[tried:] + self._waiting + left[:tried]
                    await self._backoff.pause()
                else:
                    self._backoff.reset()
                    self._set_aside(left)
        finally:
            self._writing = None

    def _set_aside(self, locked: list[Ending]) -> None:
        """Try endings whose rows are locked beside the others, which need not wait for them."""
        self._locked += locked
        if self._locked and self._retrying is None:
            self._retrying = asyncio.create_task(self._retry_on())

    async def _retry_on(self) -> None:
        backoff = Backoff(self._world.dice)
        try:
            while self._locked:
                await backoff.pause()
                batch, self._locked = self._locked[:1], self._locked[1:]
                self._locked += await self._write_and_tell(batch)
        finally:
            self._retrying = None

    async def _write_and_tell(self, batch: list[Ending]) -> list[Ending]:
        """Write a batch and report what was written; return what could not be written now."""
        changes = await self._write(batch)
        for job, outcome in batch:
            if job.id in changes:
                self._tell(job, outcome, changes[job.id])
        return [(job, outcome) for job, outcome in batch if job.id not in changes]

    def _tell(self, job: Job, outcome: Outcome, change: Change | None) -> None:
        try:
            self._settled(job, outcome, change)
        except Exception:  # one bad listener must not keep the other endings from being written
            log.exception("the ending of %s is written, but could not be told", job.id)

    async def _write(self, batch: list[Ending]) -> dict[str, Change | None]:
        """Write a batch; an ending missing from the answer could not be written now and is tried again."""
        self._faults.at("settle.before")
        try:
            changes = await self._database.call(lambda: settle(self._world, batch))
        except AWAY as problem:
            if isinstance(problem, StoreBusy) and len(batch) > 1:
                return await self._one_by_one(batch)  # one row may be locked; the other endings need not wait for it
            if not self._backoff.failures:
                log.warning("%d endings wait for the store: %s", len(batch), problem)
            return {}
        except Exception as problem:
            if len(batch) > 1:
                return await self._one_by_one(batch)
            return await self._as_failure(*batch[0], problem)
        self._faults.at("settle.after")
        return changes

    async def _one_by_one(self, batch: list[Ending]) -> dict[str, Change | None]:
        """An ending the store refuses must not take its neighbours with it."""
        changes: dict[str, Change | None] = {}
        waited = 0
        for ending in batch:
            written = await self._write([ending])
            waited += not written
            if waited > MAX_WAITS:
                break  # not single rows: the store as a whole is busy
            changes |= written
        return changes

    async def _as_failure(self, job: Job, outcome: Outcome, problem: Exception) -> dict[str, Change | None]:
        """An ending that cannot be stored as it is ends as a failure that says so; silence would only repeat it."""
        error = f"its ending ({outcome.ending}) could not be stored: {type(problem).__name__}: {problem}"
        log.exception("the ending of %s cannot be stored; it is stored as a failure", job.id)
        failure = Outcome("failed", error=shown(error))
        try:
            return await self._database.call(lambda: settle(self._world, [(job, failure)]))
        except Exception:
            log.exception("nor can its failure; the lease of %s will run out", job.id)
            return {job.id: None}
