"""Forgetting, in small batches: what is old enough goes, never more than a few hundred rows in one transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from horae.core.instants import micros
from horae.stores.driver import Driver, marks

# table: its key, and which rows are old. A key is kept while its job is there, so that it can still answer for it.
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


def forget(driver: Driver, table: str, before: datetime, limit: int) -> int:
    """Delete up to *limit* old rows of one table; how many there were."""
    key, old = OLD[table]
    listed = ", ".join(key)
    rows = driver.rows(f"SELECT {listed} FROM {table} WHERE {old} LIMIT {int(limit)}", [micros(before)])
    if rows:
        match = " AND ".join(f"{name} = %s" for name in key)
        conditions = " OR ".join([f"({match})"] * len(rows))
        values: list[Any] = [part for row in rows for part in row]
        if len(key) == 1:
            conditions = f"{listed} IN ({marks(len(rows))})"
        driver.change(f"DELETE FROM {table} WHERE {conditions}", values)
    return len(rows)
