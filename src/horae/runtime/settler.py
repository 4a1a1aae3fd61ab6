"""Endings, written in natural batches: while one batch is being committed, the next one gathers.

No timer, so nothing waits when the worker is idle; under load the batches fill by themselves. When the store does
not answer, the endings are kept and tried again until it does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from horae.actions.jobs import settle, shown
from horae.core.jobs import Change, Job, Outcome, not_kept
from horae.errors import SchemaMissing, SchemaTooNew, StoreBusy, StoreFull, StoreUnavailable
from horae.ports import World
from horae.runtime.attempts import facts
from horae.runtime.database import DatabaseThreads
from horae.runtime.faults import Faults
from horae.runtime.loop import Backoff
from horae.runtime.tracebacks import error_line

MAX_BATCH = 500
AWAY = (StoreUnavailable, StoreBusy, StoreFull, SchemaMissing, SchemaTooNew)  # the store's trouble, not the ending's
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

    async def drained(self, limit: timedelta) -> bool:
        """Until everything handed in has been written; false when the store did not come back in time."""
        if self._writing is None:
            return True
        done, late = await asyncio.wait([self._writing], timeout=limit.total_seconds())
        for task in late:
            task.cancel()
        return bool(done)

    async def _write_on(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                changes = await self._write(batch)
                for job, outcome in batch:
                    self._tell(job, outcome, changes[job.id])
        finally:
            self._writing = None

    def _tell(self, job: Job, outcome: Outcome, change: Change | None) -> None:
        try:
            self._settled(job, outcome, change)
        except Exception:  # one bad listener must not keep the other endings from being written
            log.exception("the ending of %s is written, but could not be told", job.id)

    async def _write(self, batch: list[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        backoff = Backoff(self._world.dice)
        while True:
            self._faults.at("settle.before")
            try:
                changes = await self._database.call(lambda: settle(self._world, batch))
            except AWAY as problem:
                if not backoff.failures:
                    log.warning("%d endings wait for the store: %s", len(batch), problem)
                await backoff.pause()
                continue
            except Exception as problem:
                if len(batch) > 1:
                    return await self._one_by_one(batch)
                return await self._as_failure(*batch[0], problem)
            self._faults.at("settle.after")
            return changes

    async def _one_by_one(self, batch: list[tuple[Job, Outcome]]) -> dict[str, Change | None]:
        """An ending the store refuses must not take its neighbours with it."""
        changes: dict[str, Change | None] = {}
        for ending in batch:
            changes |= await self._write([ending])
        return changes

    async def _as_failure(self, job: Job, outcome: Outcome, problem: Exception) -> dict[str, Change | None]:
        """Store an ending that the store refuses in another form; silence would only repeat the job.

        What ran is told as having run: a success goes without its result first. Whatever else cannot be stored is a
        failure that says so.
        """
        why = error_line(problem)
        log.error("the ending of %s cannot be stored as it is: %s", job.id, why, exc_info=problem, extra=facts(job))
        forms = [Outcome("failed", error=shown(f"its ending ({outcome.ending}) could not be stored: {why}"))]
        if outcome.ending == "succeeded":
            forms.insert(0, Outcome("succeeded", error=shown(not_kept(why))))
        for form in forms:
            try:
                return await self._database.call(partial(settle, self._world, [(job, form)]))
            except Exception:
                log.exception("nor can %s of %s", form.ending, job.id, extra=facts(job))
        log.error("the lease of %s will run out", job.id, extra=facts(job))
        return {job.id: None}
