"""How many live jobs there are, by queue and state: counted while they are few, else as a chore counted them last."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, case, delete, func, insert, select, union_all

from horae.core.metrics import Backlog
from horae.core.time.instants import instant, micros
from horae.ports import Depth
from horae.stores.tables.jobs import jobs
from horae.stores.tables.queues import depths

MOST = 10_000  # jobs that are counted by each reader
WAITING = and_(jobs.c.state == "queued", jobs.c.held == "")
BANDS = (0, 1, 2)


class Depths:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def count(self, now: datetime, *, most: int | None) -> dict[tuple[str, str], Depth]:
        """Count live jobs by queue and state, and how many of them are due, no further than *most* in all."""
        is_due = case((and_(WAITING, jobs.c.run_at <= micros(now)), 1), else_=0).label("is_due")
        some: Select[Any] = select(jobs.c.queue, jobs.c.state, is_due)
        rows = (some if most is None else some.limit(most)).subquery()
        query = select(rows.c.queue, rows.c.state, func.count(), func.sum(rows.c.is_due))
        found = self.connection.execute(query.group_by(rows.c.queue, rows.c.state))
        return {(queue, state): Depth(int(count), int(due)) for queue, state, count, due in found}

    def read(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Return the counts as of the last sample, which exists while there are many jobs; else count them."""
        rows = self.connection.execute(select(depths.c.queue, depths.c.state, depths.c.jobs, depths.c.due))
        sample = {(queue, state): Depth(int(count), int(due)) for queue, state, count, due in rows}
        return sample or self.count(now, most=MOST)

    def sample(self, now: datetime) -> bool:
        """Keep a sample while there are more jobs than each reader counts; return whether there are."""
        many = self.connection.execute(select(jobs.c.id).order_by(jobs.c.id).offset(MOST).limit(1)).first() is not None
        found = self.count(now, most=None) if many else {}
        self.connection.execute(delete(depths))
        rows = [
            {"queue": queue, "state": state, "jobs": depth.jobs, "due": depth.due, "sampled_at": micros(now)}
            for (queue, state), depth in sorted(found.items())
        ]
        if rows:
            self.connection.execute(insert(depths), rows)
        return many

    def waiting(self, now: datetime) -> dict[str, Backlog]:
        """Return by queue how many jobs are due, and since when the first of them; its number may be of the sample."""
        due = {queue: depth.due for (queue, state), depth in self.read(now).items() if state == "queued"}
        oldest = self._oldest(due)
        return {
            queue: Backlog(max(1, due[queue]), instant(first))
            for queue, first in sorted(oldest.items())
            if first <= micros(now)
        }

    def _oldest(self, queues: Mapping[str, object]) -> dict[str, int]:
        """Return when the first waiting job of each queue is due: a look at the head of an index for each band."""
        heads = [
            select(jobs.c.queue, jobs.c.run_at).where(jobs.c.queue == queue, WAITING, jobs.c.band == band)
            .order_by(jobs.c.run_at).limit(1).subquery()
            for queue in sorted(queues) for band in BANDS
        ]  # fmt: skip
        found: dict[str, int] = {}
        for start in range(0, len(heads), 60):
            chunk = [select(head.c.queue, head.c.run_at) for head in heads[start : start + 60]]
            for queue, run_at in self.connection.execute(union_all(*chunk)):
                found[queue] = min(int(run_at), found.get(queue, int(run_at)))
        return found
