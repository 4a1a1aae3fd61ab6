"""Forgetting, in small batches: what is old enough goes, never more than a few hundred rows in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from horae.core.time.instants import micros
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver, marks
from horae.stores.jobs.totals import COUNTED, add_removed

# table: its key, and which rows are old. A key is kept while its job is there, so that it can still answer for it.
RUNS = "horae_runs"
OLD = {
    "horae_runs": (("job_id", "token"), "finished_at < %s"),
    "horae_fires": (("schedule_id", "kind", "fire_at"), "recorded_at < %s"),
    "horae_keys": (
        ("scope", "owner", "name"),
        "created_at < %s AND scope = 'key' AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_keys.job_id)",
    ),
    "horae_ledger": (
        ("job_id", "name"),
        "created_at < %s AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_ledger.job_id)",
    ),
    "horae_nodes": (("id",), "seen_at < %s"),
    # A job that was cancelled for its parent can be brought back for as long as the history has it.
    "horae_needs": (
        ("job_id", "needed_id"),
        "%s > 0 AND NOT EXISTS (SELECT 1 FROM horae_jobs WHERE id = horae_needs.job_id) "
        "AND NOT EXISTS (SELECT 1 FROM horae_runs WHERE job_id = horae_needs.job_id AND state IS NOT NULL)",
    ),
}


def forget(driver: Driver, dialect: Dialect, table: str, before: datetime, limit: int) -> int:
    """Delete up to *limit* old rows of one table; how many there were. Removed runs stay counted."""
    if table == RUNS:
        return _forget_runs(driver, dialect, before, limit)
    key, old = OLD[table]
    rows = driver.rows(f"SELECT {', '.join(key)} FROM {table} WHERE {old} LIMIT {int(limit)}", [micros(before)])
    _delete(driver, table, rows)
    return len(rows)


def _forget_runs(driver: Driver, dialect: Dialect, before: datetime, limit: int) -> int:
    key, old = OLD[RUNS]
    sql = f"SELECT {', '.join((*key, *COUNTED))} FROM {RUNS} WHERE {old} ORDER BY finished_at LIMIT {int(limit)}"
    rows = driver.rows(sql + dialect.locking, [micros(before)])
    _delete(driver, RUNS, [row[: len(key)] for row in rows])
    add_removed(driver, dialect, [row[len(key) :] for row in rows])
    return len(rows)


def _delete(driver: Driver, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    key, _ = OLD[table]
    listed = ", ".join(key)
    if rows:
        match = " AND ".join(f"{name} = %s" for name in key)
        conditions = " OR ".join([f"({match})"] * len(rows))
        values: list[Any] = [part for row in rows for part in row]
        if len(key) == 1:
            conditions = f"{listed} IN ({marks(len(rows))})"
        driver.change(f"DELETE FROM {table} WHERE {conditions}", values)
