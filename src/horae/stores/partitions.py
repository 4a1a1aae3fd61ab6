"""Partitions of the history inside one transaction: which there are, and what lies in them.

How a database changes them stands in its store; where it has none, the list is empty and nothing else is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    ScalarSelect,
    TextClause,
    and_,
    case,
    delete,
    func,
    inspect,
    literal,
    select,
    text,
)

from horae.core.partitions import Partition
from horae.core.retention import ANY, RunRetention
from horae.core.time.instants import EPOCH, MICROSECOND, instant, micros
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.databases.driver import CallerDriver
from horae.stores.jobs.totals import LOCK, RAN, Counts, add_counts, lock_counts
from horae.stores.tables.jobs import runs
from horae.stores.tables.retention import counted_partitions
from horae.stores.tables.schedules import fires

RUNS, FIRES = runs.name, fires.name
PARTITIONED_BY: dict[str, Column[int]] = {RUNS: runs.c.finished_at, FIRES: fires.c.fire_at}
NUMBER = re.compile(r"-?\d+")  # in the bounds of a partition


class Partitions:
    """The partitions of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]

    def all(self, table: str) -> list[Partition]:
        """Return the partitions of a table, the catch-all last; none where it is not partitioned."""
        return self.by_table().get(table, [])

    def by_table(self) -> dict[str, list[Partition]]:
        """Return the partitions of each partitioned table, the catch-all last."""
        found: dict[str, list[Partition]] = {}
        for table, name, bounds in self.connection.execute(_listing(self.dialect)) if self.dialect.partitions else ():
            high, low, *_ = [*(instant(int(number)) for number in reversed(NUMBER.findall(bounds))), None, None]
            found.setdefault(table, []).append(Partition(table, name, low, high))
        return {table: _in_order(partitions) for table, partitions in found.items()}

    def is_partitioned(self, table: str) -> bool:
        """Return whether a table of MariaDB has partitions."""
        return self.connection.execute(text(self.dialect.partitions.format(table=table))).first() is not None

    @property
    def moved_at_most(self) -> int:
        return self.dialect.moved_at_most

    def count_catch_all(self, *tables: Sequence[Partition], most: int) -> list[int]:
        """Count rows that no day takes, at most so many for each table, given by its partitions; in one statement."""
        parts = [(index, each) for index, partitions in enumerate(tables) for each in _beside(partitions)]
        found = [0 for _ in tables]
        if parts:
            counts = [_count(condition, most) for _, condition in parts]
            for (index, _), number in zip(parts, self.connection.execute(select(*counts)).one(), strict=True):
                found[index] = min(most, found[index] + int(number))
        return found

    def count_aside(self, table: str, *, most: int) -> int:
        """Count rows that lie aside, at most so many: only where a catch-all cannot be swapped as it is."""
        aside = f"{table}_aside"
        if not self.dialect.partitions or not inspect(self.connection).has_table(aside):
            return 0
        some = f"SELECT 1 FROM {aside} LIMIT {most}"
        return int(self.connection.execute(text(f"SELECT COUNT(*) FROM ({some}) x")).scalar_one())

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


@cache
def _listing(dialect: Dialect) -> TextClause:
    return text(" UNION ALL ".join(dialect.partitions.format(table=table) for table in PARTITIONED_BY))


def _in_order(partitions: list[Partition]) -> list[Partition]:
    """Return partitions by their ends; where only ends are known, each begins where the one before it ends."""
    ordered = sorted(partitions, key=lambda each: (each.high is None, each.high or EPOCH))
    return [
        replace(each, low=before.high) if each.low is None and before is not None and each.high is not None else each
        for before, each in zip((None, *ordered), ordered, strict=False)
    ]


def _beside(partitions: Sequence[Partition]) -> Iterator[ColumnElement[bool]]:
    """Return where rows lie that no day takes: after the last day, and between two days."""
    end: datetime | None = None
    for partition in partitions:
        by = PARTITIONED_BY[partition.table]
        if end is not None and partition.high is None:
            yield by >= micros(end)
        elif end is not None and partition.low is not None and partition.low > end:
            yield and_(by >= micros(end), by < micros(partition.low))
        end = partition.high or end


def _count(condition: ColumnElement[bool], most: int) -> ScalarSelect[int]:
    some = select(literal(1)).where(condition).limit(most).subquery()
    return select(func.count()).select_from(some).scalar_subquery()


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
