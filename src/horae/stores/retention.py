"""Forgetting, in small batches: what is old enough goes, never more than a few hundred rows in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from horae.core.retention import RetentionRule, RunRetention
from horae.core.time.instants import MICROSECOND, micros
from horae.ports.chores import Spared
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver, Driver, marks
from horae.stores.jobs.totals import COUNTED, add_removed, lock_counts, not_counted
from horae.stores.tables.jobs import runs
from horae.stores.tables.retention import RULES, retention_rules, retention_walks

# table: its key, and which rows are old. A key is kept while its job is there, so that it can still answer for it.
RUN_KEY = ("job_id", "token", "finished_at")
OLD = {
    "horae_fires": (("schedule_id", "kind", "fire_at"), "recorded_at < %s"),
    "horae_keys": (
        ("scope", "owner", "name"),
        "created_at < %s AND scope <> 'unique' AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_keys.job_id)",
    ),
    "horae_ledger": (
        ("job_id", "name"),
        "created_at < %s AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_ledger.job_id)",
    ),
    "horae_task_ledger": (
        ("task_id", "scope", "name"),
        "created_at < %s AND NOT EXISTS (SELECT 1 FROM horae_tasks WHERE id = horae_task_ledger.task_id "
        "AND state NOT IN ('completed', 'failed', 'cancelled'))",
    ),
    "horae_reservations": (
        ("job_id", "token", "step", "budget_id", "starts_at"),
        "state = 'settled' AND at < %s",
    ),
    "horae_lines": (("job_id", "token"), "finished_at < %s"),
    "horae_nodes": (("id",), "seen_at < %s"),
    "horae_parents": (
        ("job_id", "parent_id"),
        "created_at < %s AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_parents.job_id)",
    ),
    "horae_answers": (
        ("job_id", "parent_id"),
        "created_at < %s AND parent_id > 0 AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_answers.job_id)",
    ),
    "horae_asks": (
        ("needed_id", "job_id"),
        "created_at < %s AND state = 'told' AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_asks.needed_id)",
    ),
    # A job that was cancelled for its parent can be brought back for as long as the history has it.
    "horae_needs": (
        ("job_id", "needed_id"),
        "%s > 0 AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_needs.job_id) "
        "AND NOT EXISTS (SELECT 1 FROM horae_runs WHERE job_id = horae_needs.job_id AND state IS NOT NULL)",
    ),
}
PAGE = 2000  # runs looked at in one step, where most of them may be kept for longer


def forget(driver: Driver, table: str, before: datetime, limit: int, spared: Spared | None = None) -> int:
    """Delete up to *limit* old rows of one table; how many there were. Runs are walked instead, see below."""
    key, old = OLD[table]
    values = [micros(before)]
    if spared is not None:
        old += " AND NOT (fire_at >= %s AND fire_at < %s AND recorded_at >= %s)"
        values += [micros(spared.since), micros(spared.until), micros(spared.recorded_since)]
    rows = driver.rows(f"SELECT {', '.join(key)} FROM {table} WHERE {old} LIMIT {int(limit)}", values)
    _delete(driver, table, key, rows)
    return len(rows)


def _delete(driver: Driver, table: str, key: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    listed = ", ".join(key)
    if rows:
        match = " AND ".join(f"{name} = %s" for name in key)
        conditions = " OR ".join([f"({match})"] * len(rows))
        values: list[Any] = [part for row in rows for part in row]
        if len(key) == 1:
            conditions = f"{listed} IN ({marks(len(rows))})"
        driver.change(f"DELETE FROM {table} WHERE {conditions}", values)


class RetentionRules:
    """Stored rules, and the deletion of runs by them, inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]

    def all(self) -> list[RetentionRule]:
        return [RULES.read(row) for row in self.connection.execute(select(*RULES.select))]

    def lock(self) -> None:
        """Keep other transactions from changing a rule, or deleting by one, until this one ends."""
        lock_counts(CallerDriver(self.connection), self.dialect)

    def put(self, rule: RetentionRule) -> None:
        self.remove(rule.queue, rule.outcome)
        self.connection.execute(insert(retention_rules).values(RULES.row(rule)))

    def remove(self, queue: str, outcome: str) -> None:
        """Remove a rule; every walk begins anew, because other runs may be old now."""
        named = (retention_rules.c.queue == queue, retention_rules.c.outcome == outcome)
        self.connection.execute(delete(retention_rules).where(*named))
        self.connection.execute(delete(retention_walks))

    def walk(
        self, keep: timedelta, until: datetime, retention: RunRetention, *, limit: int, several: bool
    ) -> tuple[int, bool]:
        """Delete runs that are kept for *keep* and ended before *until*; how many, and whether there may be more.

        They are looked at in the order in which they ended. Where *several* spans hold, runs that are kept for longer
        stay behind; how far a walk has come is stored, so that they are looked at once and not again every hour.
        """
        driver = CallerDriver(self.connection)
        lock_counts(driver, self.dialect)
        start = self._walked(keep) if several else None
        rows, is_last = self._page(start, until, PAGE if several else limit)
        over = [row for row in rows if not several or retention.keep(row.queue, row.outcome) <= keep]
        gone = over[:limit]
        _delete(driver, runs.name, RUN_KEY, [row[: len(RUN_KEY)] for row in gone])
        _delete(driver, "horae_lines", RUN_KEY[:2], [row[:2] for row in gone])
        add_removed(driver, self.dialect, [(row.schedule_id, row.handler, row.outcome) for row in gone])
        if several and len(gone) == len(over):
            self._note(keep, micros(until) if is_last else rows[-1].finished_at + 1)
        return len(gone), not is_last or len(gone) < len(over)

    def _page(self, start: int | None, until: datetime, size: int) -> tuple[list[Any], bool]:
        """Return runs that ended from *start* on, with all that ended at the same instant as the last one."""
        columns = [runs.c[name] for name in (*RUN_KEY, "queue", *COUNTED)]
        query = select(*columns).where(runs.c.finished_at < micros(until), not_counted())
        query = query if start is None else query.where(runs.c.finished_at >= start)
        rows = list(self.connection.execute(query.order_by(runs.c.finished_at).limit(size)))
        if len(rows) < size or start is None:
            return rows, len(rows) < size
        last = rows[-1].finished_at
        same = self.connection.execute(select(*columns).where(runs.c.finished_at == last, not_counted()))
        return [row for row in rows if row.finished_at < last] + list(same), False

    def _walked(self, keep: timedelta) -> int:
        query = select(retention_walks.c.walked_until).where(retention_walks.c.keep_for == keep // MICROSECOND)
        found: int | None = self.connection.execute(query).scalar()
        return 0 if found is None else found

    def _note(self, keep: timedelta, walked: int) -> None:
        span = keep // MICROSECOND
        changed = update(retention_walks).where(retention_walks.c.keep_for == span).values(walked_until=walked)
        if self.connection.execute(changed).rowcount == 0 and self._walked(keep) != walked:
            self.connection.execute(insert(retention_walks).values(keep_for=span, walked_until=walked))
