"""Partitions of the history: made ahead, emptied where rows fell beside them, dropped when everything in them is over.

Each change waits for its lock a second at most and is tried again later, because every settle that comes after it
waits as long. Any number of processes may do this at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from horae.actions.roll_up import keep_up, rolled_until
from horae.core.dataclass import dataclass
from horae.core.partitions import (
    ALARM_BELOW,
    DAY,
    Partition,
    days_ahead,
    end_of_days,
    missing_days,
    next_bound,
    partition_name,
    start_of_day,
)
from horae.core.retention import RunRetention, sort_rules
from horae.errors import StoreBusy
from horae.ports.chores import PartitionChange
from horae.ports.store import Tx
from horae.ports.world import World

RUNS, FIRES = "horae_runs", "horae_fires"
TABLES = (RUNS, FIRES)
TRIES = 3
SLACK = 3 * DAY  # beyond the beginning of today, for what ends while a catch-all is emptied
RETURNED_AT_ONCE, RETURN_STEPS = 2_000, 50  # rows that one transaction brings back, and transactions of one step


@dataclass(frozen=True, slots=True)
class HistoryState:
    """How a partitioned table stands."""

    table: str
    days_ahead: int
    catch_all: int  # rows that no day takes, counted up to one more than can be moved
    moved_at_most: int  # more of them would keep every ending waiting while they are moved

    @property
    def is_overfull(self) -> bool:
        return self.catch_all > self.moved_at_most

    @property
    def is_short(self) -> bool:
        return self.days_ahead < ALARM_BELOW


def read_history(tx: Tx, now: datetime, *, most: int | None = None) -> list[HistoryState]:
    """Return how the partitioned tables stand; none where the database does not partition."""
    moved, found = tx.partitions.moved_at_most, tx.partitions.by_table()
    counts = tx.partitions.count_catch_all(*found.values(), most=moved + 1 if most is None else most)
    return [
        HistoryState(table, days_ahead(partitions, now), beside, moved)
        for (table, partitions), beside in zip(found.items(), counts, strict=True)
    ]


def history_states(world: World, *, most: int | None = None) -> list[HistoryState]:
    now = world.clock.now()
    return world.route().store.read(lambda tx: read_history(tx, now, most=most))


def keep_partitions(world: World, *, patient: bool = False) -> int:
    """Make daily partitions until there are enough ahead; return how many were made.

    *patient* waits for locks and moves any number of rows, for ``horae db migrate`` at a quiet hour.
    """
    made = empty_catch_all(world, patient=patient)
    now = world.clock.now()
    for table in TABLES:
        partitions, _, overfull = _read(world, table)
        if overfull and not patient:
            continue  # to add a partition, the catch-all is read or copied under a lock
        low = end_of_days(partitions)
        for high in missing_days(partitions, now):
            made += _alter(world, "add", Partition(table, partition_name(high), low, high), patient=patient)
            low = high
    return made + _return_aside(world, patient=patient)


def empty_catch_all(world: World, *, patient: bool = False) -> int:
    """Give rows that fell beside the days a partition of their own; return how many partitions were made.

    That happens where none was made in time. Rows that ended in the future, by a wrong clock, stay.
    """
    now, made = world.clock.now(), 0
    for table in TABLES:
        partitions, beside, overfull = _read(world, table)
        end = end_of_days(partitions)
        if not beside or end is None or end > now:
            continue
        if overfull and not patient:
            made += _empty_overfull(world, table, end, now)
            continue
        high = missing_days(partitions, now)[0]
        made += _alter(world, "split", Partition(table, partition_name(high), end, high), patient=patient)
    return made


def _empty_overfull(world: World, table: str, end: datetime, now: datetime) -> bool:
    """Empty a catch-all with any number of rows; its partition reaches beyond today, so that it may take a while."""
    high = start_of_day(now) + SLACK
    partition = Partition(table, partition_name(high), end, high)
    return _persist(lambda: world.route().store.empty_catch_all(partition))


def _return_aside(world: World, *, patient: bool = False) -> int:
    """Bring back rows that an emptied catch-all left aside; return how many steps were made, so that more follow."""
    steps = 0
    for table in TABLES:
        while steps < RETURN_STEPS or patient:
            if not world.route().store.return_aside(table, RETURNED_AT_ONCE):
                break
            steps += 1
    return steps


def keep_history(world: World) -> int:
    """Make partitions ahead and drop those that are over; return how many were changed."""
    return keep_partitions(world) + drop_old(world)


def drop_old(world: World) -> int:
    """Drop partitions in which every row has been kept for long enough and is in the statistics; return how many.

    Runs are added to the stored counts before, in a transaction of their own, because a drop cannot share one.
    """
    now = world.clock.now()
    retention = run_retention(world)
    return sum(_drop_runs(world, retention, now)) + sum(_drop_fires(world, world.retention.fires, now))


def run_retention(world: World) -> RunRetention:
    """Return how long runs are kept: by what is stored, else by this process's settings."""
    rules = world.route().store.read(lambda tx: tx.retention.all())
    return RunRetention(sort_rules(rules), world.retention.runs)


def _drop_runs(world: World, retention: RunRetention, now: datetime) -> list[bool]:
    dropped = []
    keep_up(world)
    counted = rolled_until(world)
    for partition, partitions in _over(world, RUNS, retention.spans[0], now):
        if partition.high is None or partition.high > counted:
            continue
        if _age(partition, now) < retention.longest and _keeps_runs(world, partition, retention, now):
            continue
        _count(world, partition)
        dropped.append(_drop(world, partition, partitions))
    return dropped


def _drop_fires(world: World, keep: timedelta, now: datetime) -> list[bool]:
    return [
        _drop(world, partition, partitions)
        for partition, partitions in _over(world, FIRES, keep, now)
        if not _keeps_fires(world, partition, now - keep)
    ]


def _over(world: World, table: str, keep: timedelta, now: datetime) -> list[tuple[Partition, list[Partition]]]:
    """Return the days of a table that ended so long ago, the oldest first, each with all partitions."""
    partitions = world.route().store.read(lambda tx: tx.partitions.all(table))
    if not partitions:
        return []
    if table == RUNS:
        world.route().store.transact(lambda tx: tx.partitions.forget_dropped(table))
    return [(each, partitions) for each in partitions if each.is_day and _age(each, now) >= keep]


def _age(partition: Partition, now: datetime) -> timedelta:
    assert partition.high is not None
    return now - partition.high


def _keeps_runs(world: World, partition: Partition, retention: RunRetention, now: datetime) -> bool:
    store = world.route().store
    return store.read(lambda tx: tx.partitions.keeps_runs(partition, retention, now), unbounded=True)


def _keeps_fires(world: World, partition: Partition, since: datetime) -> bool:
    return world.route().store.read(lambda tx: tx.partitions.keeps_fires(partition, since), unbounded=True)


def _count(world: World, partition: Partition) -> None:
    def count(tx: Tx) -> None:
        with tx.lend_connection():  # a whole day is read: without the limit of a statement
            tx.partitions.count_runs(partition)

    world.route().store.transact(count)


def _drop(world: World, partition: Partition, partitions: list[Partition]) -> bool:
    return _alter(world, "drop", replace(partition, high=next_bound(partitions, partition)))


def _read(world: World, table: str) -> tuple[list[Partition], bool, bool]:
    """Return the partitions, whether rows lie beside the days, and whether those are too many to be moved."""

    def read(tx: Tx) -> tuple[list[Partition], bool, bool]:
        partitions, most = tx.partitions.all(table), tx.partitions.moved_at_most
        beside = sum(tx.partitions.count_catch_all(partitions, most=most + 1))
        return partitions, beside > 0, beside > most

    return world.route().store.read(read)


def _alter(world: World, change: PartitionChange, partition: Partition, *, patient: bool = False) -> bool:
    return _persist(lambda: world.route().store.alter_partitions(change, partition, patient=patient))


def _persist(change: Callable[[], bool]) -> bool:
    """Try a change of partitions a few times: a table that is in use is free a moment later."""
    for tries_left in range(TRIES - 1, -1, -1):
        try:
            return change()
        except StoreBusy:
            if not tries_left:
                raise
    raise AssertionError("the last round always returns or raises")
