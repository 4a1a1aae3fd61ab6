"""Shapes of document 004."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from horae.core.jobs.masking import mask_text
from horae.core.schedules.schedule import Schedule
from horae.ports.logs import Logged
from horae.service.dialects.admin_shapes import WORDS, Status, took
from horae.service.fields import Body, Instant

LONGEST = 366 * 24 * 60  # minutes


class StartJob(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"interval_minutes": 30}]})

    interval_minutes: Annotated[float, Field(ge=1 / 60, le=LONGEST, allow_inf_nan=False)]


class TimeOfDay(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"hour": 20, "minute": 0, "timezone": "Asia/Shanghai"}]})

    hour: Annotated[int, Field(ge=0, le=23)]
    minute: Annotated[int, Field(ge=0, le=59)]
    timezone: Annotated[str, Field(max_length=64)] | None = Field(default=None, description="An IANA zone.")


class Arranged(BaseModel):
    """A job and its times."""

    job_id: str = Field(examples=["sync_daily"])
    status: Literal["started", "scheduled", "stopped"]
    enabled: bool
    trigger: str = Field(examples=["cron: 0 20 * * * (Asia/Shanghai)"])
    next_run_time: Instant | None

    @classmethod
    def of(cls, schedule: Schedule, status: Literal["started", "scheduled", "stopped"]) -> Self:
        return cls(
            job_id=schedule.key,
            status=status,
            enabled=schedule.is_on,
            trigger=trigger_of(schedule),
            next_run_time=schedule.next_fire_at,
        )


class ExecutionTriggered(BaseModel):
    job_id: str
    triggered: bool = Field(description="Not when it is running already and may not overlap.")
    execution: str | None = Field(examples=["job_12"])
    reason: str | None = Field(examples=["running"])


class ScheduledJob(BaseModel):
    id: str
    name: str
    next_run_time: Instant | None
    trigger: str
    arguments: dict[str, Any] = Field(serialization_alias="kwargs")

    @classmethod
    def of(cls, schedule: Schedule) -> Self:
        return cls(
            id=schedule.key,
            name=schedule.title or schedule.handler,
            next_run_time=schedule.next_fire_at,
            trigger=trigger_of(schedule),
            arguments=schedule.payload,
        )


class SchedulerStatus(BaseModel):
    is_running: bool = Field(description="A worker has been seen lately.")
    jobs: list[ScheduledJob]
    available_jobs: list[str] = Field(examples=[["sync_daily", "sync_history"]])


class Execution(BaseModel):
    """One run of a stored schedule."""

    id: str = Field(examples=["job_12.1"])
    job_id: str = Field(examples=["sync_daily"])
    started_at: Instant | None
    finished_at: Instant | None
    status: Status
    error_message: str | None
    duration_ms: int | None

    @classmethod
    def of(cls, line: Logged) -> Self:
        run = line.run
        span: timedelta | None = None
        if run.started_at is not None and run.finished_at is not None:
            span = run.finished_at - run.started_at
        return cls(
            id=run.id,
            job_id=line.key or run.handler,
            started_at=run.started_at,
            finished_at=run.finished_at,
            status=WORDS[run.outcome],
            error_message=None if run.error is None else mask_text(run.error),
            duration_ms=took(span),
        )


def trigger_of(schedule: Schedule) -> str:
    """Return the rule of a schedule as it was written."""
    if schedule.kind == "cron":
        return f"cron: {schedule.expression} ({schedule.zone})"
    if schedule.kind == "every":
        return f"interval: {schedule.expression} s"
    return f"date: {schedule.expression}" if schedule.kind == "once" else f"after: {', '.join(schedule.after)}"
