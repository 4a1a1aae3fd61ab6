"""End waiting jobs as cancelled, in the transaction that has a reason for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from horae.core.time.instants import micros
from horae.stores.databases.driver import Driver, marks
from horae.stores.tables.jobs import ATTEMPT, SNAPSHOT

CANCELLED_RUN = (
    f"INSERT INTO horae_runs (job_id, token, {', '.join(ATTEMPT)}, outcome, state, attempt, error, finished_at, "
    f"{', '.join(SNAPSHOT)}) SELECT id, token, {', '.join(ATTEMPT)}, 'cancelled', 'cancelled', attempt, last_error, "
    f"finished_at, {', '.join(SNAPSHOT)} FROM horae_jobs WHERE "
)


def cancel_waiting(driver: Driver, numbers: Sequence[int], reason: str, now: datetime) -> None:
    """End waiting jobs as cancelled: their rows move to the history, their unique names are free again."""
    listed = f"id IN ({marks(len(numbers))}) AND state = 'queued'"
    sql = "UPDATE horae_jobs SET token = token + 1, cancel_reason = %s, finished_at = %s WHERE "
    driver.change(sql + listed, [reason, micros(now), *numbers])
    driver.change(CANCELLED_RUN + listed, numbers)
    driver.change(f"DELETE FROM horae_jobs WHERE {listed}", numbers)
    driver.change(f"DELETE FROM horae_keys WHERE scope = 'unique' AND job_id IN ({marks(len(numbers))})", numbers)
