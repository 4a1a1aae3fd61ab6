"""Runs as an administrator looks through them: newest first, ended ones and those under way in one list.

Newest means the newest job, and of one job the newest attempt: the order in which both tables are indexed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)

from horae.core.jobs.job import LOCAL
from horae.core.time.instants import micros
from horae.ports.logs import LogFilter, Logged
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver
from horae.stores.jobs.totals import COUNTED, add_removed, lock_counts, not_counted
from horae.stores.tables.jobs import JOBS, LOGGED, jobs, runs
from horae.stores.tables.lines import lines
from horae.stores.tables.schedules import fires, schedules

UNKNOWN = {"finished_at", "error", "next_action_at", "audit_event_id"}  # of a run that is under way
RUNNING = "running"


class Logs:
    """The runs of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def find(self, wanted: LogFilter, *, limit: int, before: tuple[int, int] | None) -> list[Logged]:
        """Return a page of runs; *before* is (job, token) of the last one of the page before."""
        found: dict[tuple[int, int], Logged] = {}
        for source in _sources(wanted):
            query = _apply_filter(_lines(source), source, wanted)
            number, token = _name(source)
            if before is not None:
                earlier = and_(number == before[0], token < before[1])
                query = query.where(or_(number < before[0], earlier))
            rows = self.connection.execute(query.order_by(number.desc(), token.desc()).limit(limit))
            found |= {(row.job_id, row.token): _read_logged(row) for row in rows}  # an ended one wins: it is read last
        page = [found[name] for name in sorted(found, reverse=True)[:limit]]
        return self._with_triggers(page)

    def get(self, number: int, token: int) -> Logged | None:
        for source in (jobs, runs):
            its_number, its_token = _name(source)
            query = _lines(source).where(its_number == number, its_token == token)
            if source is jobs:
                query = query.where(jobs.c.state == RUNNING)
            row = self.connection.execute(query).first()
            if row is not None:
                return self._with_triggers([_read_logged(row)])[0]
        return None

    def count(self, wanted: LogFilter) -> int:
        return sum(
            int(self.connection.execute(_apply_filter(select(func.count()), source, wanted)).scalar_one())
            for source in _sources(wanted)
        )

    def count_old(self, wanted: LogFilter, before: datetime) -> int:
        """Return how many ended runs of finished jobs ended before an instant."""
        query = _apply_filter(select(func.count()), runs, wanted).where(*_forgettable(before))
        return int(self.connection.execute(query).scalar_one())

    def remove_old(self, wanted: LogFilter, before: datetime, *, limit: int) -> int:
        """Remove a few of them; how many there were. They stay counted."""
        driver = CallerDriver(self.connection)
        lock_counts(driver, BY_NAME[self.connection.dialect.name])
        columns = [runs.c[name] for name in ("job_id", "token", *COUNTED)]
        query = _apply_filter(select(*columns), runs, wanted).where(*_forgettable(before))
        query = query.order_by(runs.c.finished_at).limit(limit).with_for_update(skip_locked=True)
        rows = self.connection.execute(query).all()
        if rows:
            condition = tuple_(runs.c.job_id, runs.c.token).in_([tuple(row[:2]) for row in rows])
            self.connection.execute(delete(runs).where(condition))
            of_runs = tuple_(lines.c.job_id, lines.c.token).in_([tuple(row[:2]) for row in rows])
            self.connection.execute(delete(lines).where(of_runs))
            removed = [(row.schedule_id, row.handler, row.outcome) for row in rows]
            add_removed(driver, BY_NAME[self.connection.dialect.name], removed)
        return len(rows)

    def _with_triggers(self, page: list[Logged]) -> list[Logged]:
        """Add to each run whether it was triggered by hand or by a backfill."""
        asked = {each.run.job_number for each in page if each.run.schedule_id is not None}
        if not asked:
            return page
        spots = {(each.run.schedule_id, kind, micros(each.run.fire_at)) for each in page
                 if each.run.fire_at is not None for kind in ("manual", "backfill")}  # fmt: skip
        condition = tuple_(fires.c.schedule_id, fires.c.kind, fires.c.fire_at).in_(sorted(spots))
        query = select(fires.c.job_id, fires.c.kind).where(condition, fires.c.job_id.is_not(None))
        kinds = {row.job_id: row.kind for row in self.connection.execute(query)} if spots else {}
        return [
            each if each.trigger == "job" else Logged(each.run, each.key, kinds.get(each.run.job_number, "schedule"))
            for each in page
        ]


def _sources(wanted: LogFilter) -> list[Any]:
    """Return where to look: runs under way are in the job table."""
    is_any = not wanted.outcomes
    under_way = [jobs] if is_any or RUNNING in wanted.outcomes else []
    return under_way + ([runs] if is_any or set(wanted.outcomes) - {RUNNING} else [])


def _name(source: Any) -> tuple[ColumnElement[int], ColumnElement[int]]:
    return (source.c.id if source is jobs else source.c.job_id), source.c.token


def _lines(source: Any) -> Select[Any]:
    """Return what a line of the log tells; payloads and results stay where they are."""
    columns = [_column(source, name) for name in LOGGED.columns]
    chosen: Select[Any] = select(*columns, schedules.c.schedule_key.label("schedule_key"))
    return chosen.select_from(source.outerjoin(schedules, schedules.c.id == source.c.schedule_id))


def _column(source: Any, name: str) -> ColumnElement[Any]:
    if source is runs:
        column: ColumnElement[Any] = runs.c[name]
    elif name == "job_id":
        column = jobs.c.id.label(name)
    elif name == "outcome":
        column = literal(RUNNING).label(name)
    else:
        column = literal_column("NULL").label(name) if name in UNKNOWN else jobs.c[name]
    return column


def _apply_filter(query: Select[Any], source: Any, wanted: LogFilter) -> Select[Any]:
    c = source.c
    query = query.where(*(JOBS if source is jobs else LOGGED).equal(wanted))
    if wanted.schedule_id is None and wanted.handler is None:
        query = query.where(or_(c.schedule_id.is_not(None), c.queue == LOCAL))
    if source is jobs:
        query = query.where(jobs.c.state == RUNNING)
    elif wanted.outcomes:
        query = query.where(runs.c.outcome.in_(wanted.outcomes))
    if wanted.started_after is not None:
        query = query.where(c.started_at >= micros(wanted.started_after))
        if source is runs:  # what began later also ended later, and that is indexed
            query = query.where(runs.c.finished_at >= micros(wanted.started_after))
    if wanted.started_before is not None:
        query = query.where(c.started_at < micros(wanted.started_before))
    return query


def _forgettable(before: datetime) -> tuple[ColumnElement[bool], ...]:
    """An earlier attempt of a job that is still there, waiting, running or dead, is part of that job's story."""
    return runs.c.finished_at < micros(before), ~exists().where(jobs.c.id == runs.c.job_id), not_counted()


def _read_logged(row: Any) -> Logged:
    run = LOGGED.read(row)
    return Logged(run, row.schedule_key, "job" if run.schedule_id is None else "schedule")
