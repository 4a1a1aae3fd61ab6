"""The status of a declared job, as in document 003's snapshot; the counts are of the whole cluster."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.schedules.schedule import Mode, Schedule
from horae.core.schedules.status import describe_or_explain

Result = Literal["SUCCESS", "FAILED", "SKIPPED"]
WHEN_ASKED = "when enqueued or triggered"
RESULTS: dict[str, Result] = {"succeeded": "SUCCESS", "skipped": "SKIPPED"}


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job: a schedule, or a handler that runs only when it is asked for."""

    id: str
    enabled: bool
    schedule: str  # in words
    mode: Mode
    last_fire_time: datetime | None = None
    last_duration: timedelta | None = None
    last_result: Result | None = None
    next_fire_time: datetime | None = None
    run_count: int = 0
    fail_count: int = 0
    inactive: str | None = None  # why it does not fire though it is enabled


def duration(started_at: datetime | None, finished_at: datetime | None) -> timedelta | None:
    return finished_at - started_at if started_at is not None and finished_at is not None else None


def result_of(outcome: str | None) -> Result | None:
    return None if outcome is None else RESULTS.get(outcome, "FAILED")


def status_of(
    schedule: Schedule,
    *,
    next_fire_at: datetime | None,
    outcome: str | None = None,
    started_at: datetime | None = None,
    finished_at: datetime | None = None,
    run_count: int = 0,
    fail_count: int = 0,
) -> JobStatus:
    """Return the status of a schedule, given what the history knows of its runs."""
    took = duration(started_at, finished_at)
    return JobStatus(
        id=schedule.key,
        enabled=schedule.is_on,
        schedule=describe_or_explain(schedule),
        mode=schedule.mode,
        last_fire_time=schedule.last_fire_at or started_at,
        last_duration=None if outcome == "skipped" else took,
        last_result=result_of(outcome),
        next_fire_time=next_fire_at,
        run_count=run_count,
        fail_count=fail_count,
        inactive=schedule.inactive,
    )
