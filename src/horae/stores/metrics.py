"""Metrics of the whole fleet from the tables: counts and sums only, of now or of a recent window."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, select

from horae.core.jobs.machinery import MACHINERY
from horae.core.metrics import Backlog
from horae.core.time.instants import micros
from horae.ports.queues import Depth
from horae.stores.jobs.depths import Depths
from horae.stores.tables.jobs import jobs, runs
from horae.stores.tables.schedules import fires

VERDICTS = (
    select(fires.c.verdict, func.sum(fires.c.fire_count))
    .where(fires.c.recorded_at >= bindparam("since"))
    .group_by(fires.c.verdict)
)


class Metrics:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def depths(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Return how many live jobs there are by (queue, state); of the last sample where there are many."""
        found = Depths(self.connection).read(now)
        return {key: depth for key, depth in found.items() if key[0] != MACHINERY}

    def count_many(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Count all live jobs by (queue, state) if there are more than each reader counts; else return nothing."""
        return Depths(self.connection).count_many(now)

    def keep_sample(self, counted: Mapping[tuple[str, str], Depth], now: datetime) -> None:
        """Keep these counts for those who read them, in the place of the last ones."""
        Depths(self.connection).keep(counted, now)

    def waiting(self, now: datetime, depths: Mapping[tuple[str, str], Depth] | None = None) -> dict[str, Backlog]:
        """Return by queue how many jobs are due, and since when the first; *depths* spares counting them again."""
        found = Depths(self.connection).waiting(now, depths)
        return {queue: backlog for queue, backlog in found.items() if queue != MACHINERY}

    def verdicts(self, since: datetime) -> dict[str, int]:
        """Count fires recorded since then, by what became of them."""
        rows = self.connection.execute(VERDICTS, {"since": micros(since)})
        return {verdict: int(count) for verdict, count in rows}

    def last_number(self) -> int:
        """Return the highest job number on record: two looks at the ends of two keys."""
        highest = (select(func.max(number)).scalar_subquery() for number in (jobs.c.id, runs.c.job_id))
        return max(number or 0 for number in self.connection.execute(select(*highest)).one())
