"""What the service tells of users' tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from horae.api.jobs import Reason
from horae.client.reading import Told


@dataclass(frozen=True)
class Task(Told):
    """A user's own task; ``warnings`` say what was understood otherwise than it was said."""

    id: str
    user_id: str
    name: str
    enabled: bool
    schedule_type: str
    schedule_expr: str
    timezone: str
    version: int
    handler: str
    words: str
    inactive: bool
    payload: Any = None
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    locked_by: str | None = None
    locked_until: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    day_match: str = "and"
    lenient: bool = False


@dataclass(frozen=True)
class TaskRun(Told):
    """One attempt at a task; ``status`` is running, success or failed."""

    id: str
    task_id: str
    user_id: str
    status: str
    outcome: str
    attempt: int
    trigger: str
    job_id: str
    trace_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    planned_at: datetime | None = None
    error: str | None = None
    result: Any = None
    worker_id: str | None = None


@dataclass(frozen=True)
class TaskTriggered(Told):
    """The job that a trigger made."""

    task_id: str
    job_id: str | None
    triggered_at: datetime
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Occasion(Told):
    """An instant, and what clocks in the zone show then."""

    at: datetime
    local: str


@dataclass(frozen=True)
class ClockChange(Told):
    """A change of clocks, and what becomes of the task."""

    at: datetime
    change: str
    effect: str


@dataclass(frozen=True)
class TaskPreview(Told):
    """When a task will run, or would."""

    schedule_type: str
    schedule_expr: str
    timezone: str
    words: str
    next: tuple[Occasion, ...]
    clocks: tuple[ClockChange, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskReasons(Told):
    """Why a task does, or does not, run."""

    id: str
    standing: str
    reasons: tuple[Reason, ...]
    next_run_at: datetime | None = None
