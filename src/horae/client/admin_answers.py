"""What the service tells in the words of documents 003 and 004."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from horae.client.reading import Told


@dataclass(frozen=True)
class JobState(Told):
    """A schedule and how it is doing; times in milliseconds since 1970."""

    id: str
    enabled: bool
    schedule: str
    mode: str
    runCount: int
    failCount: int
    ephemeral: bool
    paused: bool
    owner: str
    lastFireTime: int | None = None
    lastDuration: int | None = None
    lastResult: str | None = None
    nextFireTime: int | None = None
    inactive: str | None = None


@dataclass(frozen=True)
class JobDetail(JobState):
    """The same, with what it runs."""

    handler: str = ""
    kind: str = ""
    expression: str = ""
    zone: str = ""
    parameters: Any = None
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobTriggered(Told):
    """A job, or why there is none."""

    id: str
    triggered: bool
    jobId: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class LogLine(Told):
    """One run in the log; times in milliseconds."""

    id: str
    jobId: str
    status: str
    trigger: str
    attempt: int
    outcome: str
    owner: str
    statusCode: int | None = None
    fireTime: int | None = None
    startTime: int | None = None
    duration: int | None = None
    message: str | None = None
    worker: str | None = None
    traceId: str | None = None


@dataclass(frozen=True)
class LogCleaned(Told):
    """How many rows went, or would go."""

    removed: int
    before: datetime
    dry_run: bool
    more: bool


@dataclass(frozen=True)
class Arranged(Told):
    """What a job was told to do from now on."""

    job_id: str
    status: str
    enabled: bool
    trigger: str
    next_run_time: datetime | None = None


@dataclass(frozen=True)
class Execution(Told):
    """One run, as document 004 tells it."""

    id: str
    job_id: str
    status: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error_message: str | None = None
    duration_ms: int | None = None


@dataclass(frozen=True)
class ExecutionStarted(Told):
    """The job that a trigger made, or why there is none."""

    job_id: str
    triggered: bool
    execution: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ScheduledJob(Told):
    """A job that will run."""

    id: str
    name: str
    trigger: str
    next_run_time: datetime | None = None
    kwargs: Any = None


@dataclass(frozen=True)
class SchedulerStatus(Told):
    """What is scheduled, and what could be."""

    is_running: bool
    jobs: tuple[ScheduledJob, ...]
    available_jobs: tuple[str, ...]
