"""Bulk acts: their rows, and the jobs that one batch looks at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, insert, select, update

from horae.core.jobs.acts import Act
from horae.core.jobs.job import SYSTEM, Filter
from horae.core.jobs.machinery import ACT, MACHINERY
from horae.core.time.instants import instant, micros
from horae.stores.cluster.numbered import NUMBER, NumberedRows
from horae.stores.databases.bulk import insert_free
from horae.stores.jobs.jobs import apply_filter
from horae.stores.tables.acts import ACTS, act_moves, acts
from horae.stores.tables.audit import audit
from horae.stores.tables.jobs import JOBS, jobs


class Acts(NumberedRows):
    """The acts of one transaction."""

    def add(self, act: Act) -> int:
        """Store an act, under its number where another database of a cluster has given it one; return the number."""
        row = ACTS.row(act)
        row = {NUMBER: act.number, **row} if act.number else self.with_number(row, act.owner)
        made = self.connection.execute(insert(acts), row).inserted_primary_key
        assert made is not None
        return int(made[0])

    def add_part(self, act: Act) -> bool:
        """Store the part of an act that began in another database, unless there is one; return whether it was new."""
        return insert_free(self.connection, acts, [{NUMBER: act.number, **ACTS.row(act)}]) > 0

    def get(self, number: int, *, lock: bool = False) -> Act | None:
        query = select(*ACTS.select).where(acts.c.id == number)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else ACTS.read(row)

    def put(self, act: Act) -> None:
        """Write what changes of an act; the caller has locked it."""
        self.connection.execute(update(acts).where(acts.c.id == act.number).values(ACTS.changes(act)))

    def find(self, *, owner: str | None, states: Collection[str], limit: int, before: int | None) -> list[Act]:
        """Return a page of acts, the newest first."""
        query = select(*ACTS.select).order_by(acts.c.id.desc()).limit(limit)
        query = query if owner is None else query.where(acts.c.owner == owner)
        query = query.where(acts.c.state.in_(sorted(states))) if states else query
        query = query if before is None else query.where(acts.c.id < before)
        return [ACTS.read(row) for row in self.connection.execute(query)]

    def in_parts(self, since: datetime, *, limit: int) -> list[Act]:
        """Return acts of the house that began since then and are for several databases, the newest first."""
        several = (acts.c.owner == SYSTEM, acts.c.parts.is_not(None), acts.c.created_at >= micros(since))
        query = select(*ACTS.select).where(*several).order_by(acts.c.id.desc()).limit(limit)
        return [act for act in map(ACTS.read, self.connection.execute(query)) if len(act.databases) > 1]

    def was_begun(self, number: int) -> bool:
        """Return whether an act has ever begun here, also one whose row was deleted with the history."""
        begun = (audit.c.object_type == "act", audit.c.object_id == f"act_{number}", audit.c.verb == "start")
        return self.connection.execute(select(audit.c.verb).where(*begun).limit(1)).first() is not None

    def without_job(self, *, limit: int) -> list[Act]:
        """Return running acts on which no unfinished job works."""
        live = select(jobs.c.id).where(jobs.c.id == acts.c.job_id, jobs.c.state.in_(("queued", "running")))
        query = select(*ACTS.select).where(acts.c.state == "running", ~live.exists()).limit(limit)
        return [ACTS.read(row) for row in self.connection.execute(query)]

    def are_worked_on(self) -> bool:
        """Return whether a job that works on an act waits or runs."""
        live = (jobs.c.queue == MACHINERY, jobs.c.handler == ACT, jobs.c.state.in_(("queued", "running")))
        return self.connection.execute(select(jobs.c.id).where(*live).limit(1)).first() is not None

    # -- which jobs ------------------------------------------------------------------------------------------------

    def highest(self, *, before: datetime | None = None) -> int:
        """Return the number of the newest live job; with *before* of those that were made until then."""
        query = select(func.max(jobs.c.id))
        query = query if before is None else query.where(jobs.c.created_at <= micros(before))
        return int(self.connection.execute(query).scalar() or 0)

    def window(self, wanted: Filter, *, after: int, highest: int, rows: int, limit: int) -> tuple[list[int], int]:
        """Return the next jobs that fit, and the number up to which was looked, over at most *rows* live jobs."""
        beyond = select(jobs.c.id).where(jobs.c.id > after, jobs.c.id <= highest).order_by(jobs.c.id)
        end = self.connection.execute(beyond.offset(rows - 1).limit(1)).scalar()
        end = highest if end is None else int(end)
        fitting = self._numbers(wanted).where(jobs.c.id > after, jobs.c.id <= end)
        found = [int(number) for number in self.connection.execute(fitting.limit(limit)).scalars()]
        return found, found[-1] if len(found) == limit else end

    def _numbers(self, wanted: Filter) -> Select[Any]:
        return apply_filter(select(jobs.c.id), JOBS, wanted).order_by(jobs.c.id)

    # -- former times ----------------------------------------------------------------------------------------------

    def keep(self, number: int, times: Mapping[int, datetime]) -> None:
        """Keep when jobs were due before an act moved them."""
        rows = [{"act_id": number, "job_id": job, "run_at": micros(run_at)} for job, run_at in times.items()]
        if rows:
            self.connection.execute(insert(act_moves), rows)

    def kept(self, number: int, *, after: int, limit: int) -> dict[int, datetime]:
        """Return jobs that an act moved, by number, each with its former time."""
        query = select(act_moves.c.job_id, act_moves.c.run_at)
        query = query.where(act_moves.c.act_id == number, act_moves.c.job_id > after)
        rows = self.connection.execute(query.order_by(act_moves.c.job_id).limit(limit))
        return {int(job): instant(run_at) for job, run_at in rows}

    def forget(self, before: datetime, *, limit: int) -> int:
        """Delete former times, then acts, that ended before an instant; return how many rows there were."""
        old = select(acts.c.id).where(acts.c.state.in_(("done", "cancelled")), acts.c.finished_at < micros(before))
        numbers = list(self.connection.execute(old.order_by(acts.c.id).limit(limit)).scalars())
        if not numbers:
            return 0
        moved = select(act_moves.c.act_id, act_moves.c.job_id).where(act_moves.c.act_id.in_(numbers)).limit(limit)
        for act, job in (found := self.connection.execute(moved).all()):
            self.connection.execute(delete(act_moves).where(act_moves.c.act_id == act, act_moves.c.job_id == job))
        if len(found) < limit:
            self.connection.execute(delete(acts).where(acts.c.id.in_(numbers)))
        return len(found) + len(numbers)
