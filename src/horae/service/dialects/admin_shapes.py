"""Shapes of document 003's administration: its names, its words, times in milliseconds since 1970."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from horae.core.jobs.masking import mask_text
from horae.core.schedules.job_status import JobStatus
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import micros
from horae.core.traces import trace_id_of
from horae.ports.logs import Logged
from horae.service.fields import Instant
from horae.service.inputs import ReasonBody

Status = Literal["RUNNING", "SUCCESS", "FAILED", "SKIPPED", "CANCELLED", "SNOOZED", "RELEASED"]
WORDS: dict[str, Status] = {
    "running": "RUNNING",
    "succeeded": "SUCCESS",
    "failed": "FAILED",
    "timed_out": "FAILED",
    "lost": "FAILED",
    "skipped": "SKIPPED",
    "cancelled": "CANCELLED",
    "snoozed": "SNOOZED",
    "released": "RELEASED",
}
CODES: dict[Status, int] = {"SUCCESS": 0, "FAILED": 1}  # document 003's numbers; it has none for the others
Millis = Annotated[int, Field(description="Milliseconds since 1970, UTC.", examples=[1893996000000])]


def outcomes_of(word: Status) -> tuple[str, ...]:
    return tuple(outcome for outcome, status in WORDS.items() if status == word)


def millis(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment) // 1000


def took(span: timedelta | None) -> int | None:
    return None if span is None else span // timedelta(milliseconds=1)


class AdminJob(BaseModel):
    """The status of one job, over the whole cluster."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "clean-expired-tokens", "enabled": True, "schedule": "at 03:00, every day (UTC)",
                    "mode": "SINGLE_NODE", "lastFireTime": 1893985200000, "lastDuration": 1204, "lastResult": "SUCCESS",
                    "nextFireTime": 1894071600000, "runCount": 41, "failCount": 1, "ephemeral": False, "paused": False,
                    "inactive": None, "owner": "system",
                }
            ]
        }
    )  # fmt: skip

    id: str
    enabled: bool = Field(description="Whether it fires: a toggle wins over what is stored.")
    schedule: str = Field(description="In words.")
    mode: Literal["SINGLE_NODE", "ALL_NODES"]
    lastFireTime: Millis | None
    lastDuration: int | None = Field(description="Milliseconds.")
    lastResult: Literal["SUCCESS", "FAILED", "SKIPPED"] | None
    nextFireTime: Millis | None
    runCount: int
    failCount: int
    ephemeral: bool = Field(description="`enabled` comes from a toggle that the next start forgets.")
    paused: bool
    inactive: str | None = Field(description="Why it does not fire though it is enabled.")
    owner: str

    @classmethod
    def of(cls, schedule: Schedule, status: JobStatus, **more: Any) -> Self:
        return cls(
            id=status.id,
            enabled=status.enabled,
            schedule=status.schedule,
            mode=status.mode,
            lastFireTime=millis(status.last_fire_time),
            lastDuration=took(status.last_duration),
            lastResult=status.last_result,
            nextFireTime=millis(status.next_fire_time),
            runCount=status.run_count,
            failCount=status.fail_count,
            ephemeral=schedule.toggled is not None,
            paused=schedule.paused_at is not None,
            inactive=status.inactive,
            owner=schedule.owner,
            **more,
        )


class AdminJobDetail(AdminJob):
    """The same with what it runs, and where each value comes from."""

    handler: str
    parameters: dict[str, Any]
    kind: str = Field(examples=["cron"])
    expression: str = Field(examples=["0 3 * * *"])
    zone: str
    sources: dict[str, str] = Field(examples=[{"expression": "code", "enabled": "api"}])

    @classmethod
    def of(cls, schedule: Schedule, status: JobStatus, **more: Any) -> Self:
        return super().of(
            schedule,
            status,
            handler=schedule.handler,
            parameters=schedule.payload,
            kind=schedule.kind,
            expression=schedule.expression,
            zone=schedule.zone,
            sources=dict(schedule.sources),
            **more,
        )


class UpdateStatus(ReasonBody):
    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "clean-expired-tokens", "enabled": False}]})

    id: Annotated[str, Field(min_length=1, max_length=200)]
    enabled: bool
    ephemeral: bool = Field(
        default=False, description="Only until a worker of its application starts again; for good otherwise."
    )


class TriggeredJob(BaseModel):
    """A job, or a refusal on record: it is running already, and may not overlap."""

    id: str = Field(examples=["clean-expired-tokens"])
    triggered: bool
    jobId: str | None = Field(examples=["job_12"])
    reason: str | None = Field(examples=["running"])


class LogLine(BaseModel):
    """One run."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "job_12.1", "jobId": "clean-expired-tokens", "status": "FAILED", "statusCode": 1,
                    "fireTime": 1893985200000, "startTime": 1893985200041, "duration": 1204,
                    "message": "ConnectionError: no route", "trigger": "schedule", "attempt": 1, "outcome": "failed",
                    "worker": "host:71:9f2c", "traceId": None, "owner": "system",
                }
            ]
        }
    )  # fmt: skip

    id: str
    jobId: str = Field(description="The schedule; for a job without one, its handler.")
    status: Status
    statusCode: Literal[0, 1] | None = Field(description="0 success, 1 failure, else none.")
    fireTime: Millis | None = Field(description="The moment it was due.")
    startTime: Millis | None
    duration: int | None = Field(description="Milliseconds; none while it runs.")
    message: str | None
    trigger: Literal["schedule", "manual", "backfill", "job"]
    attempt: int
    outcome: str = Field(description="Our own, finer word.")
    worker: str | None
    traceId: str | None
    owner: str

    @classmethod
    def of(cls, line: Logged) -> Self:
        run, word = line.run, WORDS[line.run.outcome]
        span = None if run.started_at is None or run.finished_at is None else run.finished_at - run.started_at
        return cls(
            id=run.id,
            jobId=line.key or run.handler,
            status=word,
            statusCode=CODES.get(word),
            fireTime=millis(run.fire_at),
            startTime=millis(run.started_at),
            duration=took(span),
            message=None if run.error is None else mask_text(run.error),
            trigger=line.trigger,
            attempt=run.attempt,
            outcome=run.outcome,
            worker=run.worker_id,
            traceId=trace_id_of(run.trace_id),
            owner=run.owner,
        )


class LogPage(BaseModel):
    list: list[LogLine]
    total: int | None = Field(description="How many there are in all; not counted when paging by cursor.")
    pageNo: int | None
    pageSize: int
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")


class CleanedLog(BaseModel):
    removed: int = Field(description="Rows that went, or with `dry_run` would go.", examples=[1200])
    before: Instant
    dry_run: bool
    more: bool = Field(description="There are more than one call removes; call again.")
