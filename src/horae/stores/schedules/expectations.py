"""Records of expectations that were not met: rows to values and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, insert, or_, select, update

from horae.core.cluster.numbers import vshard_in
from horae.core.schedules.expectations import OF_JOB, MissedRun
from horae.core.time.instants import micros
from horae.stores.cluster.numbered import NUMBER, NumberedRows
from horae.stores.tables.expectations import EXPECTATIONS, expectations
from horae.stores.tables.jobs import jobs

c = expectations.c


class Expectations(NumberedRows):
    """The records inside one transaction."""

    def get(self, subject: str, due_at: datetime) -> MissedRun | None:
        query = select(*EXPECTATIONS.select).where(c.subject == subject, c.due_at == micros(due_at))
        row = self.connection.execute(query).first()
        return None if row is None else EXPECTATIONS.read(row)

    def open_of(self, subject: str) -> MissedRun | None:
        query = select(*EXPECTATIONS.select).where(c.subject == subject, c.state == "open").order_by(c.id.desc())
        row = self.connection.execute(query.limit(1)).first()
        return None if row is None else EXPECTATIONS.read(row)

    def of_job(self, subject: str, *, lock: bool = False) -> MissedRun | None:
        live = (c.subject == subject, c.state.in_(("waiting", "open")))
        query = select(*EXPECTATIONS.select).where(*live).order_by(c.id.desc()).limit(1)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else EXPECTATIONS.read(row)

    def add(self, missed: MissedRun) -> None:
        self.add_many([missed])

    def add_many(self, expected: Sequence[MissedRun]) -> None:
        self.connection.execute(insert(expectations), [self._row(each) for each in expected])

    def _row(self, missed: MissedRun) -> dict[str, Any]:
        """Return a new row; what is expected of a job is kept with it."""
        row = EXPECTATIONS.row(missed)
        if self.entrance is None:
            return row
        vshard = None if missed.job_number is None else vshard_in(missed.job_number)
        if vshard is None:
            [number] = self.entrance.number(self.connection, missed.owner, key=missed.schedule or None)
        else:
            [number] = self.entrance.number_in(self.connection, vshard)
        return {NUMBER: number, **row}

    def remove(self, number: int) -> None:
        self.connection.execute(delete(expectations).where(c.id == number))

    def put(self, missed: MissedRun) -> None:
        changes = EXPECTATIONS.changes(missed)
        self.connection.execute(update(expectations).where(c.id == missed.number).values(changes))

    def find(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        schedule: str | None = None,
        job: str | None = None,
        queues: Collection[str] = (),
        limit: int,
        before: int | None = None,
    ) -> list[MissedRun]:
        wanted = EXPECTATIONS.equal({"owner": owner, "state": state, "schedule": schedule, "subject": job})
        query = select(*EXPECTATIONS.select).where(*wanted).order_by(c.id.desc()).limit(limit)
        if queues:
            query = query.where(c.queue.in_(sorted(queues)))
        if state is None:
            query = query.where(c.state != "waiting")
        if before is not None:
            query = query.where(c.id < before)
        return [EXPECTATIONS.read(row) for row in self.connection.execute(query)]

    def count_open(self, owner: str | None = None) -> int:
        wanted = EXPECTATIONS.equal({"owner": owner, "state": "open"})
        return int(self.connection.execute(select(func.count()).select_from(expectations).where(*wanted)).scalar_one())

    def without_check(self, *, limit: int) -> list[MissedRun]:
        live = (jobs.c.id == c.check_job, jobs.c.state.in_(("queued", "running")))
        lacks = or_(c.check_job.is_(None), ~select(jobs.c.id).where(*live).exists())
        of_jobs = (c.state.in_(("waiting", "open")), c.subject.startswith(OF_JOB), lacks)
        query = select(*EXPECTATIONS.select).where(*of_jobs).order_by(c.id).limit(limit)
        return [EXPECTATIONS.read(row) for row in self.connection.execute(query)]

    def untold(self, since: datetime, *, limit: int) -> list[MissedRun]:
        missing = and_(c.state == "open", c.told == 0)
        over = and_(c.state == "recovered", c.ended_at >= micros(since), c.told < 2)
        query = select(*EXPECTATIONS.select).where(or_(missing, over)).order_by(c.id).limit(limit)
        return [EXPECTATIONS.read(row) for row in self.connection.execute(query)]

    def tell(self, number: int, news: int) -> None:
        self.connection.execute(update(expectations).where(c.id == number, c.told < news).values(told=news))

    def forget(self, before: datetime, *, limit: int) -> int:
        old = (c.state.in_(("recovered", "dropped")), c.ended_at < micros(before))
        numbers = list(self.connection.execute(select(c.id).where(*old).limit(limit)).scalars())
        if numbers:
            self.connection.execute(delete(expectations).where(c.id.in_(numbers)))
        return len(numbers)
