"""Write outcomes to the store in batches: while one batch is being committed, the next one collects.

There is no timer, so an idle worker writes at once, and under load the batches fill by themselves. While the store does
not answer, outcomes are kept and retried. Outcomes whose rows another transaction has locked are retried in a line of
their own, so that the others need not wait for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial

from horae.actions.jobs.jobs import truncate
from horae.core.jobs.job import Change, Job, Outcome, not_kept
from horae.errors import SchemaMissing, SchemaTooNew, ServiceUnavailable, StoreBusy, StoreFull, StoreUnavailable
from horae.ports.workers import JobSource
from horae.ports.world import Dice
from horae.runtime.database import DatabaseThreads
from horae.runtime.logs import job_fields
from horae.runtime.loop import Backoff
from horae.runtime.worker.faults import Faults
from horae.runtime.worker.tracebacks import error_line

MAX_BATCH = 500
MAX_WAITS = 2  # outcomes of one batch that may each wait for a locked row
# Errors of the store or the service, not of an outcome:
AWAY = (StoreUnavailable, StoreBusy, StoreFull, SchemaMissing, SchemaTooNew, ServiceUnavailable)
log = logging.getLogger("horae.worker")
Batch = list[tuple[Job, Outcome]]
Changes = dict[str, Change | None]  # by job id; None if the outcome was refused because the lease was lost
Written = list[tuple[Job, Outcome, Change | None]]
Settled = Callable[[Written], None]


class Line:
    """Outcomes waiting to be written, and the task that writes them batch by batch.

    If the task is cancelled, as asyncio does with all tasks on Ctrl-C, it is started again: a batch is kept until the
    store's answer is known.
    """

    def __init__(self, size: int, write: Callable[[Line], Awaitable[Batch]], dice: Dice, aside: Line | None = None):
        self.batch: Batch = []  # the batch being written
        self.commit: tuple[Batch, asyncio.Future[Changes]] | None = None  # under way in a thread
        self.backoff = Backoff(dice)
        self._waiting: Batch = []
        self._size = size
        self._write = write  # returns the outcomes that could not be written now
        self._aside = aside  # the line that retries outcomes of locked rows
        self._task: asyncio.Task[None] | None = None
        self._gave_up = False  # the worker ends: do not start the task again
        self._collects = False  # more is about to be added: do not start the task yet

    @property
    def pending(self) -> Batch:
        return [*self.batch, *self._waiting]

    def add(self, endings: Sequence[tuple[Job, Outcome]]) -> None:
        self._waiting += endings
        if endings and not self._collects:
            self.go_on()

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Begin no batch inside the block, so that what is added there is written together."""
        self._collects = True
        try:
            yield
        finally:
            self._collects = False
            if self._waiting:
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
            if len(left) == tried:  # nothing could be written: the store does not answer,
                first = MAX_WAITS + 1  # or the first rows are locked: begin with others next time
                self._waiting = left[first:] + self._waiting + left[:first]
                await self.backoff.pause()
            else:
                self.backoff.reset()
                (self._aside or self).add(left)


class Settler:
    """Take outcomes of attempts, write them, and report after the commit whether each was accepted."""

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
        self._lines[0].add(((job, outcome),))

    def collecting(self) -> AbstractContextManager[None]:
        """Write what is added inside the block together, at its end; a batch that is being written goes on."""
        return self._lines[0].collecting()

    @property
    def pending(self) -> Batch:
        """The outcomes that are not known to be written."""
        return [ending for line in self._lines for ending in line.pending]

    async def drain(self, limit: timedelta) -> bool:
        """Wait until all outcomes are written; return False if the store did not answer in time."""
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
        """Write a batch and report each written outcome; return those that could not be written now."""
        changes = await self._write(line, line.batch)
        written: Written = []
        left: Batch = []
        for ending in line.batch:
            name = ending[0].id
            if name in changes:
                written.append((*ending, changes[name]))
            else:
                left.append(ending)
        self._settled(written)
        return left

    async def _write(self, line: Line, batch: Batch) -> Changes:
        """Write a batch; an outcome missing from the answer could not be written now and is retried."""
        self._faults.at("settle.before")
        try:
            changes = await self._commit(line, batch)
        except AWAY as problem:
            if isinstance(problem, StoreBusy) and len(batch) > 1:
                return await self._one_by_one(line, batch)  # one row may be locked; the others need not wait for it
            if not line.backoff.failures:
                log.warning("%d outcomes wait until the store answers: %s", len(batch), problem)
            return {}
        except Exception as problem:
            if len(batch) > 1:
                return await self._one_by_one(line, batch)
            return await self._as_failure(*batch[0], problem)
        self._faults.at("settle.after")
        return changes

    async def _commit(self, line: Line, batch: Batch) -> Changes:
        """Write a batch. After a cancellation the same commit is awaited again: written twice, it would be refused."""
        if line.commit is None or line.commit[0] is not batch:
            line.commit = batch, self._database.submit(lambda: self._source.settle(batch))
        answer = line.commit[1]
        try:
            return await asyncio.shield(answer)
        finally:
            if answer.done():
                line.commit = None

    async def _one_by_one(self, line: Line, batch: Batch) -> Changes:
        """Write the outcomes of a batch one at a time, because one that the store refuses fails the whole batch."""
        changes: Changes = {}
        waited = 0
        for ending in batch:
            written = await self._write(line, [ending])
            waited += not written
            if waited > MAX_WAITS:
                break  # the whole store is busy, not single rows
            changes |= written
        return changes

    async def _as_failure(self, job: Job, outcome: Outcome, problem: Exception) -> Changes:
        """Store an outcome that the store refuses in a simpler form; without any outcome the job would run again.

        A success is stored without its result first, because its work has been done. Anything else becomes a failure
        that names the problem.
        """
        why = error_line(problem)
        log.error(
            "the outcome of %s cannot be stored as it is: %s", job.id, why, exc_info=problem, extra=job_fields(job)
        )
        forms = [Outcome("failed", error=truncate(f"its outcome ({outcome.ending}) could not be stored: {why}"))]
        if outcome.ending == "succeeded":
            forms.insert(0, Outcome("succeeded", error=truncate(not_kept(why))))
        for form in forms:
            try:
                return await self._database.call(partial(self._source.settle, [(job, form)]))
            except Exception:
                log.exception("outcome %s of %s cannot be stored either", form.ending, job.id, extra=job_fields(job))
        log.error("%s has no stored outcome; it runs again when its lease expires", job.id, extra=job_fields(job))
        return {job.id: None}
