"""Partitions of the history inside one transaction: which there are, and what lies in them.

How a database changes them stands in its store; where it has none, the list is empty and nothing else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Column, ColumnElement, Connection, and_, case, delete, func, literal, select, text

from horae.core.partitions import Partition
from horae.core.retention import ANY, RunRetention
from horae.core.time.instants import MICROSECOND, instant, micros
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver
from horae.stores.jobs.totals import LOCK, RAN, Counts, add_counts, lock_counts
from horae.stores.tables.jobs import runs
from horae.stores.tables.retention import counted_partitions
from horae.stores.tables.schedules import fires

RUNS, FIRES = runs.name, fires.name
PARTITIONED_BY: dict[str, Column[int]] = {RUNS: runs.c.finished_at, FIRES: fires.c.fire_at}


class Partitions:
    """The partitions of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]

    def all(self, table: str) -> list[Partition]:
        """Return the partitions of a table, the catch-all last; none where it is not partitioned."""
        if not self.dialect.partitions:
            return []
        rows = self.connection.execute(text(self.dialect.partitions), {"table": table})
        return [Partition(table, name, _instant(low), _instant(high)) for name, low, high in rows]

    @property
    def moved_at_most(self) -> int:
        return self.dialect.moved_at_most

    def count_catch_all(self, partitions: Sequence[Partition], *, most: int) -> int:
        """Count rows that no day takes, at most so many: those after the last day, and those between two days."""
        found = 0
        end: datetime | None = None
        for partition in partitions:
            by = PARTITIONED_BY[partition.table]
            if partition.high is None:
                found += 0 if end is None else self._count(by >= micros(end), most)
            elif end is not None and partition.low is not None and partition.low > end:
                found += self._count(and_(by >= micros(end), by < micros(partition.low)), most)
            end = partition.high or end
        return min(found, most)

    def last_in_catch_all(self, table: str, since: datetime) -> datetime | None:
        """Return the latest instant in the catch-all."""
        by = PARTITIONED_BY[table]
        return _instant(self.connection.execute(select(func.max(by)).where(by >= micros(since))).scalar())

    def keeps_runs(self, partition: Partition, retention: RunRetention, now: datetime) -> bool:
        """Return whether a partition has a run whose time to be kept is not over, counted from the partition's end."""
        assert partition.high is not None
        age = (now - partition.high) // MICROSECOND
        wanted = select(literal(1)).where(_within(partition), _kept_for(retention) > age).limit(1)
        return self.connection.execute(wanted).first() is not None

    def keeps_fires(self, partition: Partition, recorded_since: datetime) -> bool:
        """Return whether a partition has a fire that was recorded since then: of a backfill, or after an outage."""
        late = select(literal(1)).where(_within(partition), fires.c.recorded_at >= micros(recorded_since)).limit(1)
        return self.connection.execute(late).first() is not None

    def count_runs(self, partition: Partition) -> None:
        """Add the runs of a partition to the stored counts and mark it as counted, in this one transaction."""
        driver = CallerDriver(self.connection)
        lock_counts(driver, self.dialect)
        if self._is_counted(partition):
            return
        values = {"table_name": partition.table, "name": partition.name}
        bounds = {"begins_at": _micros(partition.low), "ends_at": _micros(partition.high)}
        self.connection.execute(counted_partitions.insert().values(**values, **bounds))
        # Runs of a schedule count for it alone, so that their handlers must not make groups of their own.
        handler = case((runs.c.schedule_id.is_(None), runs.c.handler), else_="").label("counted_handler")
        failed = func.sum(case((runs.c.outcome == "succeeded", 0), else_=1))
        query = select(runs.c.schedule_id, handler, func.count(), failed)
        query = query.where(_within(partition), runs.c.outcome.in_(RAN)).group_by(runs.c.schedule_id, handler)
        found = self.connection.execute(query)
        counts: Counts = {(number, name): (int(count), int(fails)) for number, name, count, fails in found}
        add_counts(driver, self.dialect, counts)

    def forget_dropped(self, table: str) -> None:
        """Remove the marks of partitions that are gone."""
        there = [each.name for each in self.all(table)]
        marks = counted_partitions.c
        condition = and_(marks.table_name == table, marks.name.not_in([*there, LOCK]))
        self.connection.execute(delete(counted_partitions).where(condition))

    def _is_counted(self, partition: Partition) -> bool:
        marks = counted_partitions.c
        query = select(marks.name).where(marks.table_name == partition.table, marks.name == partition.name)
        return self.connection.execute(query).first() is not None

    def _count(self, condition: ColumnElement[bool], most: int) -> int:
        some = select(literal(1)).where(condition).limit(most).subquery()
        return int(self.connection.execute(select(func.count()).select_from(some)).scalar_one())


def _within(partition: Partition) -> ColumnElement[bool]:
    by = PARTITIONED_BY[partition.table]
    bounds = [by >= micros(partition.low)] if partition.low is not None else []
    bounds += [by < micros(partition.high)] if partition.high is not None else []
    return and_(*bounds)


def _kept_for(retention: RunRetention) -> ColumnElement[int]:
    """Return how long a run is kept, in microseconds; the most particular rule comes first."""
    particular = [rule for rule in retention.rules if rule.queue or rule.outcome]
    cases = []
    for rule in sorted(particular, key=lambda rule: (rule.queue == ANY, rule.outcome == ANY)):
        named = [runs.c.queue == rule.queue] if rule.queue else []
        named += [runs.c.outcome == rule.outcome] if rule.outcome else []
        cases.append((and_(*named), rule.keep // MICROSECOND))
    default = literal(retention.keep(ANY, ANY) // MICROSECOND)
    return case(*cases, else_=default) if cases else default


def _instant(value: int | None) -> datetime | None:
    return None if value is None else instant(int(value))


def _micros(value: datetime | None) -> int | None:
    return None if value is None else micros(value)
