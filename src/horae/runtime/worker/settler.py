"""Endings, written in natural batches: while one batch is being committed, the next one gathers.

No timer, so nothing waits when the worker is idle; under load the batches fill by themselves. When the store does
not answer, the endings are kept and tried again until it does. Endings whose rows somebody has locked are tried again
in a line of their own, so that the others need not wait for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from horae.actions.jobs.jobs import truncate
from horae.core.jobs.job import Change, Job, Outcome, not_kept
from horae.errors import SchemaMissing, SchemaTooNew, ServiceUnavailable, StoreBusy, StoreFull, StoreUnavailable
from horae.ports import Dice, JobSource
from horae.runtime.database import DatabaseThreads
from horae.runtime.logs import job_fields
from horae.runtime.loop import Backoff
from horae.runtime.worker.faults import Faults
from horae.runtime.worker.tracebacks import error_line

MAX_BATCH = 500
MAX_WAITS = 2  # endings of one batch that may each wait for a locked row
# The trouble of the store or the service, not the ending's:
AWAY = (StoreUnavailable, StoreBusy, StoreFull, SchemaMissing, SchemaTooNew, ServiceUnavailable)
log = logging.getLogger("horae.worker")
Batch = list[tuple[Job, Outcome]]
Changes = dict[str, Change | None]  # by the id of the job; None when its ending came too late
Settled = Callable[[Job, Outcome, Change | None], None]


class Line:
    """Endings waiting to be written, and the task that writes them, batch after batch.

    That task goes on although somebody cancels it, as asyncio does with all tasks when it is interrupted: a batch is
    kept until its answer is known.
    """

    def __init__(self, size: int, write: Callable[[Line], Awaitable[Batch]], dice: Dice, aside: Line | None = None):
        self.batch: Batch = []  # what is being written
        self.commit: tuple[Batch, asyncio.Future[Changes]] | None = None  # under way in a thread
        self.backoff = Backoff(dice)
        self._waiting: Batch = []
        self._size = size
        self._write = write  # returns what could not be written now
        self._aside = aside  # where locked endings are tried again
        self._task: asyncio.Task[None] | None = None
        self._gave_up = False  # the time for writing is over

    @property
    def pending(self) -> Batch:
        return [*self.batch, *self._waiting]

    def add(self, endings: Batch) -> None:
        self._waiting += endings
        if endings:
            self.go_on()

    def go_on(self) -> asyncio.Task[None]:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_on())
            self._task.add_done_callback(self._resume)
        return self._task

    def give_up(self) -> None:
        self._gave_up = True
        if self._task is not None:
            self._task.cancel()

    def _resume(self, ended: asyncio.Task[None]) -> None:
        if ended.cancelled() and self.pending and not self._gave_up:
            self.go_on()

    async def _write_on(self) -> None:
        while self.pending:
            if not self.batch:
                self.batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
            left = await self._write(self)
            tried, self.batch = len(self.batch), []
            if len(left) == tried:  # nothing could be written: the store is away
                first = MAX_WAITS + 1  # or the first few are locked: begin with others next time
                self._waiting = left[first:] + self._waiting + left[:first]
                await self.backoff.pause()
            else:
                self.backoff.reset()
                (self._aside or self).add(left)


class Settler:
    """Takes endings from handlers and tells, after the commit, whether each was accepted."""

    def __init__(
        self, source: JobSource, dice: Dice, database: DatabaseThreads, settled: Settled, faults: Faults
    ) -> None:
        self._source = source
        self._database = database
        self._settled = settled
        self._faults = faults
        locked = Line(1, self._write_and_tell, dice)
        self._lines = (Line(MAX_BATCH, self._write_and_tell, dice, locked), locked)

    def add(self, job: Job, outcome: Outcome) -> None:
        self._lines[0].add([(job, outcome)])

    @property
    def pending(self) -> Batch:
        """What has been handed in and is not known to be written."""
        return [ending for line in self._lines for ending in line.pending]

    async def drained(self, limit: timedelta) -> bool:
        """Wait until everything handed in has been written; false when the store did not come back in time."""
        try:
            async with asyncio.timeout(limit.total_seconds()):
                while tasks := [line.go_on() for line in self._lines if line.pending]:
                    await asyncio.wait(tasks)
        except TimeoutError:
            for line in self._lines:
                line.give_up()
            return False
        return True

    async def _write_and_tell(self, line: Line) -> Batch:
        """Write a batch and report what was written; return what could not be written now."""
        changes = await self._write(line, line.batch)
        for job, outcome in line.batch:
            if job.id in changes:
                self._tell(job, outcome, changes[job.id])
        return [(job, outcome) for job, outcome in line.batch if job.id not in changes]

    def _tell(self, job: Job, outcome: Outcome, change: Change | None) -> None:
        try:
            self._settled(job, outcome, change)
        except Exception:  # one bad listener must not keep the other endings from being written
            log.exception("the ending of %s is written, but could not be told", job.id)

    async def _write(self, line: Line, batch: Batch) -> Changes:
        """Write a batch; an ending missing from the answer could not be written now and is tried again."""
        self._faults.at("settle.before")
        try:
            changes = await self._committed(line, batch)
        except AWAY as problem:
            if isinstance(problem, StoreBusy) and len(batch) > 1:
                return await self._one_by_one(line, batch)  # one row may be locked; the others need not wait for it
            if not line.backoff.failures:
                log.warning("%d endings wait for the store: %s", len(batch), problem)
            return {}
        except Exception as problem:
            if len(batch) > 1:
                return await self._one_by_one(line, batch)
            return await self._as_failure(*batch[0], problem)
        self._faults.at("settle.after")
        return changes

    async def _committed(self, line: Line, batch: Batch) -> Changes:
        """Write a batch. Who is cancelled meanwhile finds its answer again, instead of being told that it came late."""
        if line.commit is None or line.commit[0] is not batch:
            line.commit = batch, self._database.submit(lambda: self._source.settle(batch))
        answer = line.commit[1]
        try:
            return await asyncio.shield(answer)
        finally:
            if answer.done():
                line.commit = None

    async def _one_by_one(self, line: Line, batch: Batch) -> Changes:
        """An ending the store refuses must not take its neighbours with it."""
        changes: Changes = {}
        waited = 0
        for ending in batch:
            written = await self._write(line, [ending])
            waited += not written
            if waited > MAX_WAITS:
                break  # not single rows: the store as a whole is busy
            changes |= written
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
        forms = [Outcome("failed", error=truncate(f"its ending ({outcome.ending}) could not be stored: {why}"))]
        if outcome.ending == "succeeded":
            forms.insert(0, Outcome("succeeded", error=truncate(not_kept(why))))
        for form in forms:
            try:
                return await self._database.call(partial(self._source.settle, [(job, form)]))
            except Exception:
                log.exception("nor can %s of %s", form.ending, job.id, extra=job_fields(job))
        log.error("the lease of %s will run out", job.id, extra=job_fields(job))
        return {job.id: None}
