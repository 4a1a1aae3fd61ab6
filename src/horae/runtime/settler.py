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
from horae.runtime.database import DatabaseThreads
from horae.runtime.faults import Faults
from horae.runtime.logs import job_fields
from horae.runtime.loop import Backoff
from horae.runtime.tracebacks import error_line

MAX_BATCH = 500
AWAY = (StoreUnavailable, StoreBusy, StoreFull, SchemaMissing, SchemaTooNew)  # the store's trouble, not the ending's
log = logging.getLogger("horae.worker")
Batch = list[tuple[Job, Outcome]]
Changes = dict[str, Change | None]  # by the id of the job; None when its ending came too late
Settled = Callable[[Job, Outcome, Change | None], None]


class Settler:
    """Takes endings from handlers and tells, after the commit, whether each was accepted."""

    def __init__(self, world: World, database: DatabaseThreads, settled: Settled, faults: Faults) -> None:
        self._world = world
        self._database = database
        self._settled = settled
        self._faults = faults
        self._waiting: Batch = []
        self._batch: Batch = []  # what is being written; kept until it is, also when the writing task is cancelled
        self._commit: tuple[Batch, asyncio.Future[Changes]] | None = None  # under way in a thread
        self._writing: asyncio.Task[None] | None = None
        self._gave_up = False  # the time for writing is over

    def add(self, job: Job, outcome: Outcome) -> None:
        self._waiting.append((job, outcome))
        self._go_on()

    @property
    def pending(self) -> Batch:
        """What has been handed in and is not known to be written."""
        return [*self._batch, *self._waiting]

    def _go_on(self) -> asyncio.Task[None]:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_on())
            self._writing.add_done_callback(self._resume)
        return self._writing

    def _resume(self, ended: asyncio.Task[None]) -> None:
        """Go on writing, although somebody cancelled the task that was doing so: asyncio cancels all when it ends."""
        if ended.cancelled() and self.pending and not self._gave_up:
            self._go_on()

    async def drained(self, limit: timedelta) -> bool:
        """Wait until everything handed in has been written; false when the store did not come back in time."""
        try:
            async with asyncio.timeout(limit.total_seconds()):
                while self._batch or self._waiting:
                    await asyncio.wait([self._go_on()])
        except TimeoutError:
            self._gave_up = True
            self._go_on().cancel()
            return False
        return True

    async def _write_on(self) -> None:
        while self._batch or self._waiting:
            if not self._batch:
                self._batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            changes = await self._write(self._batch)
            written, self._batch = self._batch, []
            for job, outcome in written:
                self._tell(job, outcome, changes[job.id])

    def _tell(self, job: Job, outcome: Outcome, change: Change | None) -> None:
        try:
            self._settled(job, outcome, change)
        except Exception:  # one bad listener must not keep the other endings from being written
            log.exception("the ending of %s is written, but could not be told", job.id)

    async def _write(self, batch: Batch) -> Changes:
        backoff = Backoff(self._world.dice)
        while True:
            self._faults.at("settle.before")
            try:
                changes = await self._committed(batch)
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

    async def _committed(self, batch: Batch) -> Changes:
        """Write a batch. Who is cancelled meanwhile finds its answer again, instead of being told that it came late."""
        if self._commit is None or self._commit[0] is not batch:
            self._commit = batch, self._database.submit(lambda: settle(self._world, batch))
        answer = self._commit[1]
        try:
            return await asyncio.shield(answer)
        finally:
            if answer.done():
                self._commit = None

    async def _one_by_one(self, batch: Batch) -> Changes:
        """An ending the store refuses must not take its neighbours with it."""
        changes: Changes = {}
        for ending in batch:
            changes |= await self._write([ending])
        return changes

    async def _as_failure(self, job: Job, outcome: Outcome, problem: Exception) -> Changes:
        """Store an ending that the store refuses in another form; silence would only repeat the job.

        What ran is told as having run: a success goes without its result first. Whatever else cannot be stored is a
        failure that says so.
        """
        why = error_line(problem)
        log.error(
            "the ending of %s cannot be stored as it is: %s", job.id, why, exc_info=problem, extra=job_fields(job)
        )
        forms = [Outcome("failed", error=shown(f"its ending ({outcome.ending}) could not be stored: {why}"))]
        if outcome.ending == "succeeded":
            forms.insert(0, Outcome("succeeded", error=shown(not_kept(why))))
        for form in forms:
            try:
                return await self._database.call(partial(settle, self._world, [(job, form)]))
            except Exception:
                log.exception("nor can %s of %s", form.ending, job.id, extra=job_fields(job))
        log.error("the lease of %s will run out", job.id, extra=job_fields(job))
        return {job.id: None}
