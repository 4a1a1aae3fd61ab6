"""Batches: their rows, and what the end of a job means to the batch that it belongs to.

The transaction that ends a job notes that beside its batch, then locks the batch and looks whether a job of it is still
open. Two transactions that end the last two jobs at the same moment wait for each other there, and the second sees what
the first has noted: one of them, and only one, ends the batch and lets its callbacks go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update

from horae.core.jobs.batch import HELD_BY_BATCH, Batch
from horae.core.time.instants import micros
from horae.stores.cluster.numbered import NumberedRows
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.databases.driver import CallerDriver, Driver, marks
from horae.stores.jobs.cancellations import cancel_waiting
from horae.stores.tables.batches import BATCHES, batch_jobs, batches

CHUNK = 500
LIVE = "SELECT 1 FROM horae_jobs WHERE horae_jobs.id = horae_batch_jobs.job_id AND state IN ('queued', 'running')"
MEMBER = "state <> 'callback'"
SUCCEEDED = "SELECT 1 FROM horae_runs WHERE horae_runs.job_id = horae_batch_jobs.job_id AND state = 'succeeded'"


class Batches(NumberedRows):
    """The batches of one transaction."""

    def add(self, batch: Batch) -> int | None:
        """Store a batch; None where another has its key, also one that was stored just now."""
        row = self.with_number(BATCHES.row(batch), batch.owner)
        if batch.key is None:
            made = self.connection.execute(insert(batches), row).inserted_primary_key
            assert made is not None
            return int(made[0])
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
        stored = self.connection.execute(text(f"{before} {batches.name} ({names}) VALUES ({values}) {behind}"), row)
        if stored.rowcount != 1:
            return None
        found = self.by_key(batch.owner, batch.key)
        assert found is not None
        return found.number

    def by_key(self, owner: str, key: str, *, latest: bool = False) -> Batch | None:
        """Return the batch that has a key; *latest*: also one committed since this transaction began."""
        query = select(*BATCHES.select).where(batches.c.owner == owner, batches.c.idempotency_key == key)
        row = self.connection.execute(query.with_for_update(read=True) if latest else query).first()
        return None if row is None else BATCHES.read(row)

    def fill(self, batch: Batch, numbers: Sequence[int], now: datetime, *, has_waiting: bool) -> set[str]:
        """Note which jobs belong to a new batch, and its callbacks; return queues that may have work at once.

        Where jobs wait for others, one may have been cancelled when it was stored: its parent had ended.
        """
        rows = [{"batch_id": batch.number, "job_id": number, "state": "open"} for number in numbers]
        for number in batch.callbacks.values():
            rows.append({"batch_id": batch.number, "job_id": number, "state": "callback"})
        self.connection.execute(insert(batch_jobs), rows)
        if batch.callbacks:
            self.connection.execute(update(batches).where(batches.c.id == batch.number).values(**batch.callbacks))
        if not has_waiting:
            return set()
        dialect = BY_NAME[self.connection.dialect.name]
        return BatchEnds(dialect).mend(CallerDriver(self.connection), now, 1, only=batch.number)[2]

    def get(self, number: int, *, lock: bool = False) -> Batch | None:
        """Return a batch with its counts."""
        query = select(*BATCHES.select).where(batches.c.id == number)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else self._counted([BATCHES.read(row)])[0]

    def find(self, *, owner: str | None, states: Collection[str], limit: int, before: int | None) -> list[Batch]:
        """Return a page of batches with their counts, the newest first."""
        query = select(*BATCHES.select).order_by(batches.c.id.desc()).limit(limit)
        query = query if owner is None else query.where(batches.c.owner == owner)
        query = query.where(batches.c.state.in_(sorted(states))) if states else query
        query = query if before is None else query.where(batches.c.id < before)
        return self._counted([BATCHES.read(row) for row in self.connection.execute(query)])

    def of_job(self, number: int) -> Batch | None:
        """Return the batch that a job belongs to, or that it is a callback of."""
        inside = select(batch_jobs.c.batch_id).where(batch_jobs.c.job_id == number)
        found = self.connection.execute(inside).scalar()
        return None if found is None else self.get(int(found))

    def jobs(self, number: int, *, state: str | None, limit: int, after: int = 0) -> list[int]:
        """Return jobs of a batch by number, in order; with *state* only those that stand so."""
        query = select(batch_jobs.c.job_id).where(batch_jobs.c.batch_id == number, batch_jobs.c.job_id > after)
        query = query.where(batch_jobs.c.state != "callback" if state is None else batch_jobs.c.state == state)
        return list(self.connection.execute(query.order_by(batch_jobs.c.job_id).limit(limit)).scalars())

    def cancel(self, number: int, reason: str) -> None:
        """Note that an open batch is being cancelled, so that another process can go on where this one ends."""
        named = (batches.c.id == number, batches.c.state == "open")
        self.connection.execute(update(batches).where(*named).values(cancel_reason=reason))

    def being_cancelled(self, *, limit: int) -> list[Batch]:
        query = select(*BATCHES.select).where(batches.c.state == "open", batches.c.cancel_reason.is_not(None))
        return [BATCHES.read(row) for row in self.connection.execute(query.order_by(batches.c.id).limit(limit))]

    def forget(self, before: datetime, *, limit: int) -> int:
        """Delete rows of batches that ended before an instant; return how many there were."""
        old = select(batches.c.id).where(batches.c.state != "open", batches.c.ended_at < micros(before))
        numbers = list(self.connection.execute(old.order_by(batches.c.id).limit(limit)).scalars())
        if not numbers:
            return 0
        rows = select(batch_jobs.c.job_id).where(batch_jobs.c.batch_id.in_(numbers)).limit(limit)
        found = list(self.connection.execute(rows).scalars())
        gone = (batch_jobs.c.batch_id.in_(numbers), batch_jobs.c.job_id.in_(found))
        self.connection.execute(delete(batch_jobs).where(*gone))
        if len(found) < limit:
            self.connection.execute(delete(batches).where(batches.c.id.in_(numbers)))
        return len(found) + len(numbers)

    def _counted(self, found: Sequence[Batch]) -> list[Batch]:
        if not found:
            return []
        query = select(batch_jobs.c.batch_id, batch_jobs.c.state, func.count())
        query = query.where(batch_jobs.c.batch_id.in_([each.number for each in found]))
        rows = self.connection.execute(query.group_by(batch_jobs.c.batch_id, batch_jobs.c.state))
        counts = {(number, state): count for number, state, count in rows}
        return [
            replace(
                each,
                succeeded=counts.get((each.number, "succeeded"), 0),
                failed=counts.get((each.number, "failed"), 0),
            )
            for each in found
        ]


class BatchEnds:
    """The flows; ``driver`` is always inside an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def settle(
        self, driver: Driver, succeeded: Sequence[int], failed: Sequence[int], now: datetime
    ) -> tuple[list[int], set[str]]:
        """Note the ends of jobs and end their batches where these were the last.

        Return the callbacks that were cancelled, because their outcome did not come, and queues that may have work now.
        """
        concerned = self._batches_of(driver, [*succeeded, *failed])
        if not concerned:
            return [], set()
        for state, numbers in (("succeeded", succeeded), ("failed", failed)):
            for chunk in _chunks(sorted(numbers)):
                sql = (
                    f"UPDATE horae_batch_jobs SET state = '{state}' WHERE job_id IN ({marks(len(chunk))}) AND {MEMBER}"
                )
                driver.change(sql, chunk)
        return self._end(driver, concerned, now)

    def reopen(self, driver: Driver, numbers: Sequence[int]) -> None:
        """Let open batches wait again for jobs that were revived; a batch that has ended stays so."""
        for chunk in _chunks(sorted(numbers)):
            these = f"job_id IN ({marks(len(chunk))}) AND {MEMBER}"
            sql = f"UPDATE horae_batch_jobs SET state = 'open' WHERE {these} AND EXISTS "
            driver.change(f"{sql}(SELECT 1 FROM horae_batches WHERE id = batch_id AND state = 'open')", chunk)

    def mend(
        self, driver: Driver, now: datetime, limit: int, *, only: int | None = None
    ) -> tuple[list[int], int, set[str]]:
        """Note ends that were not noted, and end batches that were not ended: a safety net.

        Return the callbacks that were cancelled, how many batches have ended, and queues to wake.
        """
        one, in_one = ("", "") if only is None else (f"AND batch_id = {int(only)} ", f"AND id = {int(only)} ")
        sql = f"UPDATE horae_batch_jobs SET state = CASE WHEN EXISTS ({SUCCEEDED}) THEN 'succeeded' ELSE 'failed' END "
        driver.change(f"{sql}WHERE state = 'open' {one}AND NOT EXISTS ({LIVE})")
        left = driver.rows(
            f"SELECT id FROM horae_batches WHERE state = 'open' {in_one}AND NOT EXISTS (SELECT 1 FROM horae_batch_jobs "
            f"WHERE batch_id = horae_batches.id AND state = 'open') ORDER BY id LIMIT {int(limit)}"
        )
        never, queues = self._end(driver, [row[0] for row in left], now)
        return never, len(left), queues

    def _batches_of(self, driver: Driver, numbers: Iterable[int]) -> list[int]:
        found: set[int] = set()
        for chunk in _chunks(sorted(numbers)):
            sql = f"SELECT DISTINCT batch_id FROM horae_batch_jobs WHERE job_id IN ({marks(len(chunk))}) AND {MEMBER}"
            found |= {row[0] for row in driver.rows(sql, chunk)}
        return sorted(found)

    def _end(self, driver: Driver, numbers: Sequence[int], now: datetime) -> tuple[list[int], set[str]]:
        never: list[int] = []
        queues: set[str] = set()
        for batch in self._locked(driver, numbers):
            if self._has_job(driver, batch.number, "open"):
                continue
            end = batch.end(has_failed=self._has_job(driver, batch.number, "failed"))
            sql = "UPDATE horae_batches SET state = %s, ended_at = %s WHERE id = %s"
            driver.change(sql, [end.state, micros(now), batch.number])
            queues |= self._let_go(driver, end.runs, now)
            if end.never:
                cancel_waiting(driver, end.never, f"{batch.id} has {end.state}", now)
                never += end.never
        return never, queues

    def _locked(self, driver: Driver, numbers: Sequence[int]) -> list[Batch]:
        """Lock open batches, in one order, so that two transactions cannot wait for each other."""
        found: list[Any] = []
        for chunk in _chunks(numbers):
            sql = f"SELECT {BATCHES.sql(self._dialect)} FROM horae_batches WHERE id IN ({marks(len(chunk))}) "
            found += driver.rows(f"{sql}AND state = 'open' ORDER BY id{self._dialect.waiting_lock}", chunk)
        return [BATCHES.read(row) for row in found]

    def _has_job(self, driver: Driver, number: int, state: str) -> bool:
        sql = "SELECT 1 FROM horae_batch_jobs WHERE batch_id = %s AND state = %s LIMIT 1"
        return bool(driver.rows(sql, [number, state]))

    def _let_go(self, driver: Driver, numbers: Sequence[int], now: datetime) -> set[str]:
        """Make held callbacks due; one that a person has cancelled meanwhile stays so."""
        if not numbers:
            return set()
        held = f"id IN ({marks(len(numbers))}) AND state = 'queued' AND held = '{HELD_BY_BATCH}'"
        queues = {row[0] for row in driver.rows(f"SELECT queue FROM horae_jobs WHERE {held}", numbers)}
        driver.change(
            f"UPDATE horae_jobs SET held = '', held_for = NULL, run_at = CASE WHEN run_at > %s THEN run_at ELSE %s END "
            f"WHERE {held}",
            [micros(now), micros(now), *numbers],
        )
        return queues


def _chunks(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    return (numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK))
