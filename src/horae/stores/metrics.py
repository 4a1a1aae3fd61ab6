"""Metrics of the whole fleet from the tables: counts and sums only, of now or of a recent window."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, func, select

from horae.core.jobs.machinery import MACHINERY
from horae.core.metrics import Backlog
from horae.core.time.instants import micros
from horae.ports import Depth
from horae.stores.jobs.depths import Depths
from horae.stores.tables.jobs import jobs, runs
from horae.stores.tables.schedules import fires


class Metrics:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def depths(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Return how many live jobs there are by (queue, state); of the last sample where there are many."""
        found = Depths(self.connection).read(now)
        return {key: depth for key, depth in found.items() if key[0] != MACHINERY}

    def sample(self, now: datetime) -> bool:
        """Count all live jobs and keep the result while there are many; return whether there are."""
        return Depths(self.connection).sample(now)

    def waiting(self, now: datetime, depths: Mapping[tuple[str, str], Depth] | None = None) -> dict[str, Backlog]:
        """Return by queue how many jobs are due, and since when the first; *depths* spares counting them again."""
        found = Depths(self.connection).waiting(now, depths)
        return {queue: backlog for queue, backlog in found.items() if queue != MACHINERY}

    def verdicts(self, since: datetime) -> dict[str, int]:
        """Count fires recorded since then, by what became of them."""
        query = select(fires.c.verdict, func.sum(fires.c.fire_count)).where(fires.c.recorded_at >= micros(since))
        return {verdict: int(count) for verdict, count in self.connection.execute(query.group_by(fires.c.verdict))}

    def last_number(self) -> int:
        """Return the highest job number on record: two looks at the ends of two keys."""
        highest = (select(func.max(number)).scalar_subquery() for number in (jobs.c.id, runs.c.job_id))
        return max(number or 0 for number in self.connection.execute(select(*highest)).one())
