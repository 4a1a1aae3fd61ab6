"""Runs that were removed from the history, counted, so that run counts do not shrink with it (S3-19).

The transaction that removes runs adds them here. Only rows that it removes itself are counted: they are locked when
they are chosen, so that two processes that clean up at once do not count the same run twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    and_,
    case,
    cast,
    exists,
    func,
    null,
    or_,
    select,
    union_all,
)

from horae.ports.schedules import Tally
from horae.stores.codecs import at
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.tables.jobs import runs
from horae.stores.tables.retention import counted_partitions
from horae.stores.tables.schedules import run_totals

RAN = ("succeeded", "failed", "timed_out", "lost")  # what was given back, put off or called off does not count as run
SCHEDULE, HANDLER = "schedule", "handler"
LOCK = "lock"  # the name of the row behind which runs are removed and counted
COUNTED = ("schedule_id", "handler", "outcome")
Removed = tuple[int | None, str, str]  # the values of COUNTED
Counts = dict[tuple[int | None, str], tuple[int, int]]  # schedule and handler: runs, and how many of them failed


def add_removed(driver: Driver, dialect: Dialect, removed: Iterable[Removed]) -> None:
    """Add runs that this transaction removes: to their schedule, or, without one, to their handler."""
    counts: Counts = {}
    for schedule_id, handler, outcome in removed:
        if outcome in RAN:
            count, fails = counts.get((schedule_id, handler), (0, 0))
            counts[schedule_id, handler] = (count + 1, fails + (outcome != "succeeded"))
    add_counts(driver, dialect, counts)


def add_counts(driver: Driver, dialect: Dialect, given: Counts) -> None:
    """Add counts of runs: to their schedule, or, without one, to their handler."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for (schedule_id, handler), (count, fails) in given.items():
        total = counts[(HANDLER, handler) if schedule_id is None else (SCHEDULE, str(schedule_id))]
        total[0] += count
        total[1] += fails
    numbers = [int(name) for scope, name in counts if scope == SCHEDULE]
    known = {str(number) for number in _known_schedules(driver, numbers)}
    before, behind = dialect.insert_ignore
    for scope, name in sorted(counts):  # in one order, against deadlocks
        if scope == HANDLER or name in known:
            added = f"{before} horae_run_totals (scope, name, run_count, fail_count) VALUES (%s, %s, 0, 0) {behind}"
            driver.change(added, [scope, name])
            raised = "run_count = run_count + %s, fail_count = fail_count + %s"
            driver.change(
                f"UPDATE horae_run_totals SET {raised} WHERE scope = %s AND name = %s",
                [*counts[scope, name], scope, name],
            )


def not_counted() -> ColumnElement[bool]:
    """Return the condition for runs that are not in a partition which was counted and is about to be dropped."""
    marks = counted_partitions.c
    inside = (runs.c.finished_at >= marks.begins_at, runs.c.finished_at < marks.ends_at)
    return ~exists().where(marks.table_name == runs.name, *inside)


def lock_counts(driver: Driver, dialect: Dialect) -> None:
    """Let only one transaction at a time remove runs and count them, where a partition may be counted as a whole."""
    if not dialect.partitions:
        return
    before, behind = dialect.insert_ignore
    lock = f"SELECT name FROM horae_counted_partitions WHERE table_name = %s AND name = %s{dialect.waiting_lock}"
    if not driver.rows(lock, [runs.name, LOCK]):
        columns = "(table_name, name, begins_at, ends_at)"
        driver.change(f"{before} horae_counted_partitions {columns} VALUES (%s, %s, 0, 0) {behind}", [runs.name, LOCK])
        driver.rows(lock, [runs.name, LOCK])


def _known_schedules(driver: Driver, numbers: list[int]) -> list[int]:
    """Return those that still exist; the counts of a deleted one are of no use."""
    if not numbers:
        return []
    sql = f"SELECT id FROM horae_schedules WHERE id IN ({marks(len(numbers))})"
    return [row[0] for row in driver.rows(sql, numbers)]


def tallies(connection: Connection, scope: str, names: Sequence[Any]) -> dict[Any, Tally]:
    """Return runs and failures, kept and removed, and how the last one went, by schedule or by handler."""
    by, removed = _names(scope)
    wanted = and_(by.in_(names), runs.c.outcome.in_(RAN), not_counted())
    if scope == HANDLER:
        wanted = and_(wanted, runs.c.schedule_id.is_(None))
    failed = func.sum(case((runs.c.outcome == "succeeded", 0), else_=1))
    kept = select(by, func.count(), failed, func.max(runs.c.finished_at)).where(wanted).group_by(by)
    gone = select(removed, run_totals.c.run_count, run_totals.c.fail_count, cast(null(), BigInteger))
    gone = gone.where(run_totals.c.scope == scope, run_totals.c.name.in_([str(name) for name in names]))
    found: dict[Any, Tally] = {}
    latest: dict[Any, int] = {}
    # One statement, so that a run that is being removed is counted here or there, never twice or not at all.
    for name, count, fails, last in connection.execute(union_all(kept, gone)):
        before = found.get(name, Tally())
        found[name] = Tally(before.run_count + int(count), before.fail_count + int(fails or 0))
        latest |= {} if last is None else {name: last}
    return found | {
        row[0]: replace(
            found[row[0]],
            last_outcome=row.outcome,
            last_started_at=at(row.started_at),
            last_finished_at=at(row.finished_at),
            last_error=row.error,
        )
        for row in _last_runs(connection, by, wanted, latest)
    }


def _names(scope: str) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return the columns by which runs and totals are grouped."""
    if scope == HANDLER:
        return runs.c.handler, run_totals.c.name
    return runs.c.schedule_id, cast(run_totals.c.name, BigInteger)


def _last_runs(
    connection: Connection, by: ColumnElement[Any], wanted: ColumnElement[bool], latest: Mapping[Any, int]
) -> Sequence[Any]:
    if not latest:
        return []
    each = (and_(by == name, runs.c.finished_at == end) for name, end in latest.items())
    columns = (by, runs.c.outcome, runs.c.started_at, runs.c.finished_at, runs.c.error)
    return connection.execute(select(*columns).where(or_(*each), wanted)).all()
