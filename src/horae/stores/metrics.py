"""Metrics of the whole fleet from the tables: counts and sums only, of now or of a recent window."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from horae.core.jobs.machinery import MACHINERY
from horae.core.metrics import Backlog
from horae.core.time.instants import instant, micros
from horae.stores.tables.jobs import jobs, runs
from horae.stores.tables.schedules import fires


class Metrics:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def depths(self) -> dict[tuple[str, str], int]:
        """Count jobs by (queue, state); without the history, so that its size does not matter."""
        query = select(jobs.c.queue, jobs.c.state, func.count()).where(jobs.c.queue != MACHINERY)
        rows = self.connection.execute(query.group_by(jobs.c.queue, jobs.c.state))
        return {(queue, state): count for queue, state, count in rows}

    def waiting(self, now: datetime) -> dict[str, Backlog]:
        """Return by queue how many jobs are due, and since when the first of them."""
        theirs = jobs.c.queue != MACHINERY
        due = (jobs.c.state == "queued", jobs.c.held == "", jobs.c.run_at <= micros(now), theirs)
        query = select(jobs.c.queue, func.count(), func.min(jobs.c.run_at)).where(*due).group_by(jobs.c.queue)
        return {queue: Backlog(count, instant(oldest)) for queue, count, oldest in self.connection.execute(query)}

    def verdicts(self, since: datetime) -> dict[str, int]:
        """Count fires recorded since then, by what became of them."""
        query = select(fires.c.verdict, func.sum(fires.c.fire_count)).where(fires.c.recorded_at >= micros(since))
        return {verdict: int(count) for verdict, count in self.connection.execute(query.group_by(fires.c.verdict))}

    def last_number(self) -> int:
        """Return the highest job number on record: two looks at the ends of two keys."""
        live = self.connection.execute(select(func.max(jobs.c.id))).scalar()
        ended = self.connection.execute(select(func.max(runs.c.job_id))).scalar()
        return max(live or 0, ended or 0)
