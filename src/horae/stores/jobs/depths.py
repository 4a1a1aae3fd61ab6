"""How many live jobs there are, by queue and state: counted while they are few, else as a chore counted them last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache

from sqlalchemy import Connection, TextClause, delete, insert, select, text

from horae.core.metrics import Backlog
from horae.core.time.instants import instant, micros
from horae.ports.queues import Depth
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.tables.jobs import jobs
from horae.stores.tables.queues import depths

MOST = 10_000  # jobs that are counted by each reader
COUNT = (
    "SELECT queue, state, COUNT(*), SUM(is_due) FROM (SELECT queue, state, CASE WHEN state = 'queued' AND held = '' "
    "AND run_at <= :now THEN 1 ELSE 0 END AS is_due FROM horae_jobs {at_most}) counted GROUP BY queue, state"
)
BANDS = (0, 1, 2)
HEAD = (
    "(SELECT run_at FROM horae_jobs WHERE queue = {queue} AND state = 'queued' AND held = '' AND band = {band} "
    "ORDER BY run_at LIMIT 1)"
)


class Depths:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def count(self, now: datetime, *, most: int | None) -> dict[tuple[str, str], Depth]:
        """Count live jobs by queue and state, and how many of them are due, no further than *most* in all."""
        at_most = "" if most is None else "LIMIT :most"
        found = self.connection.execute(text(COUNT.format(at_most=at_most)), {"now": micros(now), "most": most})
        return {(queue, state): Depth(int(count), int(due)) for queue, state, count, due in found}

    def read(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Return the counts as of the last sample, which exists while there are many jobs; else count them."""
        rows = self.connection.execute(select(depths.c.queue, depths.c.state, depths.c.jobs, depths.c.due))
        sample = {(queue, state): Depth(int(count), int(due)) for queue, state, count, due in rows}
        return sample or self.count(now, most=MOST)

    def count_many(self, now: datetime) -> dict[tuple[str, str], Depth]:
        """Count all live jobs if there are more than each reader counts; else return nothing."""
        many = self.connection.execute(select(jobs.c.id).order_by(jobs.c.id).offset(MOST).limit(1)).first() is not None
        return self.count(now, most=None) if many else {}

    def keep(self, found: Mapping[tuple[str, str], Depth], now: datetime) -> None:
        """Keep counts as the sample, in the place of the last one; without counts there is none."""
        self.connection.execute(delete(depths))
        rows = [
            {"queue": queue, "state": state, "jobs": depth.jobs, "due": depth.due, "sampled_at": micros(now)}
            for (queue, state), depth in sorted(found.items())
        ]
        if rows:
            self.connection.execute(insert(depths), rows)

    def waiting(self, now: datetime, found: Mapping[tuple[str, str], Depth] | None = None) -> dict[str, Backlog]:
        """Return by queue how many jobs are due, and since when the first of them; *found*: what :meth:`read` gave.

        The number may be of the sample, while the first is that of now.
        """
        found = self.read(now) if found is None else found
        due = {queue: depth.due for (queue, state), depth in found.items() if state == "queued"}
        oldest = self._oldest(due)
        return {
            queue: Backlog(max(1, due[queue]), instant(first))
            for queue, first in sorted(oldest.items())
            if first <= micros(now)
        }

    def _oldest(self, queues: Mapping[str, object]) -> dict[str, int]:
        """Return when the first waiting job of each queue is due: a look at the head of an index for each band."""
        named = sorted(queues)
        query = _heads(BY_NAME[self.connection.dialect.name])
        given = {"rows": json.dumps(list(enumerate(named)))}
        found = dict[str, int]()
        for place, *firsts in self.connection.execute(query, given) if named else ():
            due = [int(first) for first in firsts if first is not None]
            found |= {named[place]: min(due)} if due else {}
        return found


@cache
def _heads(dialect: Dialect) -> TextClause:
    """Return the statement that reads the head of each queue and band; made once, for every scrape."""
    heads = ", ".join(HEAD.format(queue="v.queue", band=band) for band in BANDS)
    return text(f"SELECT v.place, {heads} FROM {dialect.rows_from_json(place=int, queue=str)}")
