"""Groups of errors, and the failed runs from which they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, or_, select, tuple_

from horae.core.error_groups import ErrorGroup, Failure
from horae.core.jobs.machinery import MACHINERY
from horae.core.statistics import COUNTED, DAY, MINUTE
from horae.core.time.instants import instant, micros
from horae.stores.tables.jobs import runs
from horae.stores.tables.statistics import ERROR_GROUPS, error_counts, error_groups

AT_ONCE = 500  # failed runs read at a time: their errors may be long


class ErrorGroups:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def failures(self, start: int, end: int) -> Iterator[Failure]:
        """Return the failed attempts of a span, a few at a time."""
        columns = ("owner", "handler", "error", "job_id", "token", "finished_at", "worker_id")
        failed = (runs.c.outcome.in_(COUNTED), runs.c.queue != MACHINERY)
        query = select(*(runs.c[name] for name in columns)).where(
            runs.c.finished_at >= start, runs.c.finished_at < end, *failed
        )
        rows = self.connection.execute(query.execution_options(yield_per=AT_ONCE))
        for owner, handler, error, number, token, at, worker_id in rows:
            yield Failure(at - at % MINUTE, owner, handler, error or "", number, token, instant(at), worker_id)

    def get(self, owner: str, fingerprint: str, *, lock: bool = False) -> ErrorGroup | None:
        query = select(*ERROR_GROUPS.select).where(
            error_groups.c.owner == owner, error_groups.c.fingerprint == fingerprint
        )
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else ERROR_GROUPS.read(row)

    def find(
        self,
        *,
        owner: str | None,
        handler: str | None,
        muted: bool | None,
        seen_since: datetime | None,
        now: datetime,
        limit: int,
        before: tuple[int, str, str] | None,
    ) -> list[ErrorGroup]:
        """Return a page of groups, those seen last first."""
        seen, by = error_groups.c.last_seen, error_groups.c
        query = select(*ERROR_GROUPS.select).where(*ERROR_GROUPS.equal({"owner": owner, "handler": handler}))
        if muted is not None:
            is_muted = and_(by.muted_at.is_not(None), or_(by.muted_until.is_(None), by.muted_until > micros(now)))
            query = query.where(is_muted if muted else ~is_muted)
        if seen_since is not None:
            query = query.where(seen >= micros(seen_since))
        if before is not None:
            at, whose, mark = before
            older = or_(
                seen < at,
                and_(seen == at, or_(by.owner < whose, and_(by.owner == whose, by.fingerprint < mark))),
            )
            query = query.where(seen <= at, older)
        query = query.order_by(seen.desc(), by.owner.desc(), by.fingerprint.desc()).limit(limit)
        return [ERROR_GROUPS.read(row) for row in self.connection.execute(query)]

    def put(self, group: ErrorGroup) -> None:
        key = (error_groups.c.owner == group.owner, error_groups.c.fingerprint == group.fingerprint)
        self.connection.execute(delete(error_groups).where(*key))
        self.connection.execute(insert(error_groups), ERROR_GROUPS.row(group))

    # -- counts ------------------------------------------------------------------------------------------------

    def counted(self, grain: str, at: int) -> dict[tuple[str, str], int]:
        columns = (error_counts.c.owner, error_counts.c.fingerprint, error_counts.c.error_count)
        query = select(*columns).where(error_counts.c.grain == grain, error_counts.c.at == at)
        return {(owner, mark): count for owner, mark, count in self.connection.execute(query)}

    def put_counts(self, grain: str, at: int, counts: Mapping[tuple[str, str], int]) -> None:
        """Store counts in place of those of the same groups."""
        if not counts:
            return
        known = tuple_(error_counts.c.owner, error_counts.c.fingerprint)
        keys = sorted(counts)
        for start in range(0, len(keys), AT_ONCE):
            chunk = keys[start : start + AT_ONCE]
            same = (error_counts.c.grain == grain, error_counts.c.at == at, known.in_(chunk))
            self.connection.execute(delete(error_counts).where(*same))
            rows: list[dict[str, Any]] = [
                {"grain": grain, "at": at, "owner": key[0], "fingerprint": key[1], "error_count": counts[key]}
                for key in chunk
            ]
            self.connection.execute(insert(error_counts), rows)

    def days(self, owner: str, fingerprint: str, since: int) -> dict[int, int]:
        """Return how often a group was seen by day."""
        group = (error_counts.c.owner == owner, error_counts.c.fingerprint == fingerprint)
        query = select(error_counts.c.at, error_counts.c.error_count).where(
            *group, error_counts.c.grain == "day", error_counts.c.at >= since - since % DAY
        )
        return {row.at: row.error_count for row in self.connection.execute(query.order_by(error_counts.c.at))}

    def forget(self, minutes_before: int, days_before: int) -> None:
        """Remove counts, and groups that were not seen, since before these instants."""
        for grain, before in (("minute", minutes_before), ("day", days_before)):
            self.connection.execute(
                delete(error_counts).where(error_counts.c.grain == grain, error_counts.c.at < before)
            )
        self.connection.execute(delete(error_groups).where(error_groups.c.last_seen < days_before))
