"""What the service tells of schedules and of users' tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from horae.api.jobs import Reason
from horae.client.reading import Told


@dataclass(frozen=True)
class Schedule(Told):
    """A schedule and how it stands; spans in seconds."""

    key: str
    owner: str
    handler: str
    standing: str
    words: str
    kind: str
    expression: str
    zone: str
    version: int
    enabled: bool
    fire_count: int
    queue: str
    priority: str
    day_match: str
    gap: str
    fold: str
    lenient: bool
    anchor: str
    initial_delay: float
    misfire: str
    catch_up: int
    spread: float
    grace: float
    overlap: str
    jitter: float
    mode: str
    declared: bool
    retry: dict[str, Any]
    sources: dict[str, str]
    payload: Any = None
    title: str | None = None
    group: str | None = None
    after: tuple[str, ...] = ()
    next_fire_at: datetime | None = None
    next_due_at: datetime | None = None
    last_fire_at: datetime | None = None
    max_fires: int | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    timeout: float | None = None
    lock_ttl: float | None = None
    stale_timeout: float | None = None
    toggled: bool | None = None
    inactive: str | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tzdata: str = ""


@dataclass(frozen=True)
class Tally(Told):
    """How the runs of a schedule went."""

    run_count: int
    fail_count: int
    last_outcome: str | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True)
class ScheduleDetail(Schedule):
    """A schedule, and how its runs went."""

    runs: Tally | None = None


@dataclass(frozen=True)
class Fire(Told):
    """What became of one due fire, or of several missed in a row."""

    fire_at: datetime
    kind: str
    verdict: str
    count: int
    reason: str | None = None
    due_at: datetime | None = None
    last_at: datetime | None = None
    merged_into: datetime | None = None
    job_id: str | None = None


@dataclass(frozen=True)
class Version(Told):
    """One change of a schedule."""

    at: datetime
    actor: str
    verb: str
    reason: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Preview(Told):
    """The next fires of a schedule."""

    key: str
    fires: tuple[datetime, ...]


@dataclass(frozen=True)
class ScheduleTriggered(Told):
    """The job that a trigger made, or why there is none."""

    key: str
    triggered: bool
    job_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Backfilled(Told):
    """Which fires were made up for, or would be."""

    fires: tuple[datetime, ...]
    missing: int
    present: int
    job_ids: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True)
class Group(Told):
    """The schedules of a group that were changed."""

    group: str
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Coming(Told):
    """One fire that will come."""

    at: datetime
    key: str
    owner: str
    handler: str
    queue: str


@dataclass(frozen=True)
class PileUp(Told):
    """A minute with several fires."""

    minute: datetime
    fires: int


@dataclass(frozen=True)
class Forecast(Told):
    """What will fire, and when many things come together."""

    since: datetime
    until: datetime
    complete: bool
    total: int
    fires: tuple[Coming, ...]
    pile_ups: tuple[PileUp, ...]


# -- users' tasks ------------------------------------------------------------------------------------------------


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
