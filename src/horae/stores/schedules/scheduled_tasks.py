"""Users' tasks: schedules whose key says so, with what is under way and what they ran."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, not_, or_, select, tuple_

from horae.core.jobs.job import Job, Run
from horae.core.scheduled_tasks.rules import PREFIX
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import micros
from horae.ports.scheduled_tasks import ScheduledTaskRun
from horae.stores.tables.jobs import JOBS, RUNS, jobs, running_run, runs
from horae.stores.tables.schedules import SCHEDULES, fires, schedules

# Released and snoozed attempts are no runs; a cancelled one is a run only if it had begun.
RAN = ("succeeded", "failed", "timed_out", "lost", "cancelled")
LIVE = ("queued", "running")


class ScheduledTasks:
    """The task rows of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, task_id: str, owner: str | None, *, lock: bool = False) -> Schedule | None:
        """Return a task by its id; with *owner* None, which is for operators, of any tenant."""
        query = select(*SCHEDULES.select).where(schedules.c.schedule_key == task_id, _is_task())
        query = query if owner is None else query.where(schedules.c.owner == owner)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else SCHEDULES.read(row)

    def find(
        self, owner: str | None, *, limit: int, after: tuple[str, int, int] | None, queues: Collection[str] = ()
    ) -> list[Schedule]:
        """Return tasks, the last changed first; those of all tenants in order of tenants, along the same index.

        *after* is owner, change (in microseconds) and number of the last task of the previous page. With *queues*,
        return only tasks that fire into one of them.
        """
        c = schedules.c
        order = (c.updated_at.desc(), c.id.desc())
        query = select(*SCHEDULES.select).where(_is_task()).limit(limit)
        query = query.order_by(c.owner.desc(), *order) if owner is None else query.order_by(*order)
        if owner is not None:
            query = query.where(c.owner == owner)
        if queues:
            query = query.where(c.queue.in_(sorted(queues)))
        if after is not None:
            owned_by, changed, number = after
            earlier = or_(c.updated_at < changed, and_(c.updated_at == changed, c.id < number))
            query = query.where(
                earlier if owner is not None else or_(c.owner < owned_by, and_(c.owner == owned_by, earlier))
            )
        return [SCHEDULES.read(row) for row in self.connection.execute(query)]

    def count_enabled(self, owner: str) -> int:
        """Return how many tasks of a tenant are enabled, that is, may still run by themselves.

        A task whose only run has ended no longer counts. A run by hand (it has one attempt) enables nothing.
        """
        c = schedules.c
        is_on = func.coalesce(c.toggled, c.enabled) == 1
        is_spent = and_(c.max_fires.is_not(None), c.fire_count >= c.max_fires)
        under_way = exists().where(jobs.c.schedule_id == c.id, jobs.c.state.in_(LIVE), jobs.c.max_attempts > 1)
        query = select(func.count()).where(c.owner == owner, _is_task(), is_on, or_(not_(is_spent), under_way))
        return int(self.connection.execute(query).scalar_one())

    def live(self, numbers: Iterable[int]) -> dict[int, list[Job]]:
        """Return what of these tasks waits or runs, the oldest first."""
        conditions = (jobs.c.schedule_id.in_(list(numbers)), jobs.c.state.in_(LIVE))
        found: dict[int, list[Job]] = {}
        for row in self.connection.execute(select(*JOBS.select).where(*conditions).order_by(jobs.c.id)):
            job = JOBS.read(row)
            if job.schedule_id is not None:
                found.setdefault(job.schedule_id, []).append(job)
        return found

    def last_run(self, number: int) -> Run | None:
        """Return the last ended attempt."""
        row = self.connection.execute(_ended(number).limit(1)).first()
        return None if row is None else RUNS.read(row)

    def runs(self, number: int, *, limit: int, before: tuple[int, int] | None) -> list[ScheduledTaskRun]:
        """Return runs, the newest first, also those under way; *before* is job and token of the last one seen."""
        query = _ended(number)
        if before is not None:
            earlier = and_(runs.c.job_id == before[0], runs.c.token < before[1])
            query = query.where(or_(runs.c.job_id < before[0], earlier))
        found = {
            run.id: run for run in map(running_run, self._running(number)) if before is None or _position(run) < before
        }
        found |= {run.id: run for run in map(RUNS.read, self.connection.execute(query.limit(limit)))}
        page = sorted(found.values(), key=_position, reverse=True)[:limit]
        kinds = self._find_triggers(page)
        return [ScheduledTaskRun(run, kinds.get(run.job_number, "schedule")) for run in page]

    def _running(self, number: int) -> list[Job]:
        query = select(*JOBS.select).where(jobs.c.schedule_id == number, jobs.c.state == "running")
        return [JOBS.read(row) for row in self.connection.execute(query)]

    def _find_triggers(self, page: list[Run]) -> dict[int, str]:
        """Return what did not come by the clock: set off by hand, or made up for."""
        spots = [(run.schedule_id, kind, micros(run.fire_at)) for run in page if run.fire_at is not None
                 for kind in ("manual", "backfill")]  # fmt: skip
        if not spots:
            return {}
        condition = tuple_(fires.c.schedule_id, fires.c.kind, fires.c.fire_at).in_(spots)
        query = select(fires.c.job_id, fires.c.kind).where(condition, fires.c.job_id.is_not(None))
        return {row[0]: row[1] for row in self.connection.execute(query)}


def _is_task() -> ColumnElement[bool]:
    return and_(schedules.c.schedule_key.startswith(PREFIX, autoescape=True), schedules.c.kind != "after")


def _ended(number: int) -> Select[Any]:
    begun = (runs.c.outcome.in_(RAN), runs.c.started_at.is_not(None))
    query = select(*RUNS.select).where(runs.c.schedule_id == number, *begun)
    return query.order_by(runs.c.job_id.desc(), runs.c.token.desc())


def _position(run: Run) -> tuple[int, int]:
    return run.job_number, run.token
