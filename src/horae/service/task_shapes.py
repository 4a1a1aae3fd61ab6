"""Users' tasks as they cross the wire: document 001's names and words, and ours beside them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from horae.actions.tasks import Preview
from horae.core.fires import Schedule
from horae.core.notes import effects, warnings
from horae.core.notes_words import say, say_change, say_effect
from horae.core.readings import local
from horae.core.reasons import Reason
from horae.core.standing import Standing, standing
from horae.core.tasks import LONGEST_NAME, TYPES, Facts, TaskType, Wish
from horae.core.traces import trace_id_of
from horae.core.words import Language
from horae.errors import InvalidInput
from horae.ports import TaskRun
from horae.service.inputs import storable
from horae.service.job_shapes import Instant, ReasonShape

RunStatus = Literal["running", "success", "failed"]
STATUS: dict[str, RunStatus] = {"running": "running", "succeeded": "success"}  # everything else has failed
NOTHING: dict[str, Any] = {}
LONGEST_EXPRESSION = 255
Text = Annotated[StrictStr, AfterValidator(storable)]

INTERVAL: dict[str, Any] = {
    "name": "demo interval",
    "enabled": True,
    "schedule_type": "interval",
    "schedule_expr": "60",
    "timezone": "UTC",
    "payload": {"text": "remind me to clock in", "context": {"channel": "scheduled_task"}},
}
ONCE: dict[str, Any] = {
    "name": "demo once",
    "schedule_type": "once",
    "timezone": "Asia/Shanghai",
    "next_run_at": "2030-02-27T09:30:00",
    "payload": {"text": "hello"},
}
TASK_ID = "task_6f1c2a9e0b7d4c3f8a5e6d7c8b9a0f1e"


class TaskBody(BaseModel):
    """What a user says about a task. Names that mean nothing here are passed over, so that a task can be sent back as
    it was read.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [INTERVAL, ONCE]})

    name: Annotated[Text, Field(max_length=LONGEST_NAME)] | None = Field(
        default=None, description="Blank: `Scheduled Task`."
    )
    enabled: StrictBool | None = None
    schedule_type: Annotated[Text, Field(max_length=16)] | None = Field(
        default=None, description="`cron` (the default), `interval` or `once`.", examples=["cron"]
    )
    schedule_expr: (
        Annotated[Text, Field(max_length=LONGEST_EXPRESSION)]
        | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
        | None
    ) = Field(
        default=None,
        description="Cron with five fields (empty: every minute), or seconds (zero or less: 60), or nothing for once.",
        examples=["0 9 * * 1-5"],
    )
    timezone: Annotated[Text, Field(max_length=64)] | None = Field(
        default=None, description="An IANA name; `UTC` unless said otherwise.", examples=["Asia/Shanghai"]
    )
    payload: dict[str, Any] | None = Field(default=None, description="What the handler gets; for dispatch `text`.")
    next_run_at: Annotated[Text, Field(max_length=64)] | None = Field(
        default=None,
        description="The first run; once needs it. Without an offset it is a time of the task's own zone.",
        examples=["2030-01-07T09:00:00"],
    )
    handler: Annotated[Text, Field(max_length=200)] | None = Field(
        default=None,
        description="`dispatch` unless said otherwise; `webhook` posts to `payload.url`; `attend` gives the agent "
        "`payload.lane` a task of `payload.kind`.",
    )
    day_match: Annotated[Text, Field(max_length=16)] | None = Field(
        default=None,
        description="Cron that names day and weekday: `and` (the default) runs where both match, `or` where one does.",
        examples=["and"],
    )
    lenient: StrictBool | None = Field(
        default=None, description="Read names (MON, JAN), 7 for Sunday, `@daily`, `?`, L, W and # in cron."
    )

    def wish(self) -> Wish:
        return Wish(**{name: getattr(self, name) for name in Wish.__slots__})


class TriggerBody(BaseModel):
    payload: dict[str, Any] = Field(default=NOTHING, description="Values that win over the task's own, this once.")
    reason: Annotated[Text, Field(max_length=2000, description="For the audit.")] = ""


class TaskShape(BaseModel):
    """A task that a user scheduled."""

    id: str = Field(examples=[TASK_ID])
    user_id: str = Field(examples=["alice"])
    name: str = Field(examples=["demo interval"])
    enabled: bool
    schedule_type: TaskType
    schedule_expr: str = Field(examples=["60"])
    timezone: str = Field(examples=["UTC"])
    payload: dict[str, Any]
    next_run_at: Instant | None
    last_run_at: Instant | None = Field(description="When its last run ended.")
    locked_by: str | None = Field(description="The worker that runs it now.")
    locked_until: Instant | None = Field(description="Until when that worker holds it, unless it renews.")
    created_at: Instant | None
    updated_at: Instant | None
    version: int = Field(description="Grows with every change; what `If-Match` is compared with.", examples=[1])
    handler: str = Field(examples=["dispatch"])
    words: str = Field(description="The schedule in words, English or Chinese.", examples=["Every minute"])
    day_match: str = Field(description="`and` or `or`; matters where cron names day and weekday.", examples=["and"])
    lenient: bool = Field(description="Whether its cron is read in the wider dialect.")
    inactive: bool = Field(description="It does not run although it is enabled; `reason` says why.")
    reason: str | None = Field(description="Why it does not run, where somebody may expect it to.")
    warnings: list[str] = Field(description="What was understood otherwise than it was said.")

    @classmethod
    def of(cls, facts: Facts, language: Language, told: tuple[str, ...] = ()) -> Self:
        schedule, running = facts.schedule, facts.running
        return cls(
            id=schedule.key,
            user_id=schedule.owner,
            name=schedule.title or schedule.key,
            enabled=facts.enabled,
            schedule_type=TYPES[schedule.kind],
            schedule_expr="" if schedule.kind == "once" else schedule.expression,
            timezone=schedule.zone,
            payload=schedule.payload,
            next_run_at=facts.next_run_at,
            last_run_at=None if facts.last is None else facts.last.finished_at,
            locked_by=None if running is None else running.worker_id,
            locked_until=None if running is None else running.leased_until,
            created_at=schedule.created_at,
            updated_at=schedule.updated_at,
            version=schedule.version,
            handler=schedule.handler,
            words=described(facts.effective, language),
            day_match=schedule.day_match,
            lenient=schedule.lenient,
            inactive=schedule.inactive is not None or schedule.paused_at is not None,
            reason=facts.reason,
            warnings=[*told, *facts.notices],
        )


class TaskPage(BaseModel):
    items: list[TaskShape]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one.")


class TaskRunShape(BaseModel):
    """One attempt at a scheduled task."""

    id: str = Field(examples=["job_12.1"])
    task_id: str = Field(examples=[TASK_ID])
    user_id: str = Field(examples=["alice"])
    status: RunStatus
    trace_id: str | None = Field(description="Joins the run with what it called: the `x-trace-id` of a dispatch.")
    started_at: Instant | None
    finished_at: Instant | None
    error: str | None
    result: Any
    outcome: str = Field(description="The status more precisely.", examples=["succeeded", "timed_out", "lost"])
    attempt: int = Field(examples=[1])
    trigger: str = Field(description="`schedule`, `manual` or `backfill`.", examples=["schedule"])
    planned_at: Instant | None = Field(description="The instant for which it ran.")
    job_id: str = Field(examples=["job_12"])
    worker_id: str | None

    @classmethod
    def of(cls, task_id: str, told: TaskRun) -> Self:
        run = told.run
        return cls(
            id=run.id,
            task_id=task_id,
            user_id=run.owner,
            status=STATUS.get(run.outcome, "failed"),
            trace_id=trace_id_of(run.trace_id),
            started_at=run.started_at,
            finished_at=run.finished_at,
            error=run.error,
            result=run.result,
            outcome=run.outcome,
            attempt=run.attempt,
            trigger=told.trigger,
            planned_at=run.fire_at,
            job_id=run.job_id,
            worker_id=run.worker_id,
        )


class TaskRunPage(BaseModel):
    items: list[TaskRunShape]
    next_cursor: str | None


class TriggeredTask(BaseModel):
    task_id: str = Field(examples=[TASK_ID])
    job_id: str | None = Field(examples=["job_12"])
    triggered_at: Instant
    warnings: list[str]


class Occasion(BaseModel):
    at: Instant
    local: str = Field(description="What clocks in the task's zone show then.", examples=["2030-01-07T14:00:00+08:00"])


class ClockChange(BaseModel):
    at: Instant
    change: str = Field(description="What the clocks of the zone do.")
    effect: str = Field(description="What becomes of the task.")


class TaskPreview(BaseModel):
    schedule_type: TaskType
    schedule_expr: str
    timezone: str
    words: str
    next: list[Occasion]
    clocks: list[ClockChange] = Field(description="Each change of clocks in the next 13 months.")
    warnings: list[str]

    @classmethod
    def of(cls, seen: Preview, language: Language, now: datetime) -> Self:
        schedule = seen.schedule
        rule = schedule.rule
        notes = [] if rule is None else [say(note, language) for note in warnings(rule, now)]
        coming = [] if rule is None else effects(rule, schedule.zone, now)
        return cls(
            schedule_type=TYPES[schedule.kind],
            schedule_expr="" if schedule.kind == "once" else schedule.expression,
            timezone=schedule.zone,
            words=described(schedule, language),
            next=[Occasion(at=fire, local=local(fire, schedule.zone).isoformat()) for fire in seen.fires],
            clocks=[
                ClockChange(
                    at=each.change.at, change=say_change(each.change, language), effect=say_effect(each, language)
                )
                for each in coming
            ],
            warnings=[*seen.warnings, *notes],
        )


class TaskReasons(BaseModel):
    id: str = Field(examples=[TASK_ID])
    standing: Standing
    next_run_at: Instant | None
    reasons: list[ReasonShape]

    @classmethod
    def of(cls, facts: Facts, found: tuple[Reason, ...]) -> Self:
        return cls(
            id=facts.schedule.key,
            standing=standing(facts.schedule),
            next_run_at=facts.next_run_at,
            reasons=[ReasonShape(code=each.code, text=each.text) for each in found],
        )


def described(schedule: Schedule, language: Language) -> str:
    """In words; a rule that this host cannot read, such as a zone it does not know, must not hide the task."""
    try:
        return schedule.describe(language)
    except InvalidInput as problem:
        return str(problem)
