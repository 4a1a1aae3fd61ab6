"""Public values of users' scheduled tasks, in the words of document 001, with ours after them.

Document 001 is this room's own vocabulary, so that its door and ours are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from horae.actions.scheduled_tasks import Preview
from horae.api.jobs.room import Reason
from horae.core.dataclass import dataclass
from horae.core.jobs.reasons import Reason as Why
from horae.core.scheduled_tasks.task import TYPES, Facts, TaskType, Wish
from horae.core.schedules.notes import effects, warnings
from horae.core.schedules.notes_words import say, say_change, say_effect
from horae.core.schedules.schedule import Schedule
from horae.core.schedules.status import ScheduleStatus
from horae.core.time.readings import local
from horae.core.traces import trace_id_of
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput
from horae.ports.scheduled_tasks import ScheduledTaskRun as Attempt
from horae.words.languages import Language

RunStatus = Literal["running", "success", "failed"]
STATUS: dict[str, RunStatus] = {"running": "running", "succeeded": "success"}  # everything else has failed


# -- terms ------------------------------------------------------------------------------------------------------------


class TaskTerms(TypedDict, total=False):
    """The terms of a task. A ``next_run_at`` without an offset is a time of the task's own zone."""

    name: str
    enabled: bool
    schedule_type: str
    schedule_expr: str | int
    timezone: str
    payload: Mapping[str, Any]
    next_run_at: datetime | str
    handler: str
    day_match: str
    lenient: bool


KINDS: dict[str, tuple[Any, str]] = {
    "enabled": (bool, "true or false"),
    "lenient": (bool, "true or false"),
    "payload": (Mapping, "an object"),
    "schedule_expr": (str | int, "text or a whole number"),
}


def wish_from(terms: Mapping[str, Any]) -> Wish:
    """Return the terms as a wish; a term that is missing or None stays as it was, or is the default."""
    unknown = sorted(set(terms) - set(TaskTerms.__annotations__))
    if unknown:
        raise InvalidInput("task_field_unknown", field=unknown[0], choices=list(TaskTerms.__annotations__))
    return Wish(**{name: _check_term(name, _plain(value)) for name, value in terms.items() if value is not None})


def terms_of(wish: Wish) -> dict[str, Any]:
    """Return a wish as the arguments that make it again."""
    return {name: value for name in Wish.__slots__ if (value := getattr(wish, name)) is not None}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _check_term(name: str, value: Any) -> Any:
    kind, expected = KINDS.get(name, (str, "text"))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidInput("type_wrong", name=name, value=repr(value), expected=expected)
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= sign <= "\udfff" for sign in value)):
        raise InvalidInput("text_not_storable", name=name)
    return value


# -- answers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ScheduledTask:
    """A user's own task.

    ``inactive`` means that it does not run although it is enabled, and ``reason`` says why; ``warnings`` say what was
    understood otherwise than written; ``deduplicated`` is set by ``create`` where the same key had made it before.
    """

    __pydantic_config__ = PYDANTIC

    id: str
    user_id: str
    name: str
    enabled: bool
    schedule_type: TaskType
    schedule_expr: str
    timezone: str
    payload: Any = None
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    locked_by: str | None = None
    locked_until: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    last_status: RunStatus | None = None
    handler: str = ""
    words: str = ""
    day_match: str = "and"
    lenient: bool = False
    inactive: bool = False
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    deduplicated: bool = False


@dataclass(frozen=True, kw_only=True)
class ScheduledTaskRun:
    """One attempt at a task; ``outcome`` is the status more precisely, ``trigger`` what set it off."""

    __pydantic_config__ = PYDANTIC

    id: str
    task_id: str
    user_id: str
    status: RunStatus
    trace_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None
    result: Any = None
    outcome: str
    attempt: int
    trigger: str
    planned_at: datetime | None = None
    job_id: str
    worker_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class TriggeredTask:
    """The job that a trigger made."""

    __pydantic_config__ = PYDANTIC

    task_id: str
    job_id: str | None
    triggered_at: datetime
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Occasion:
    """An instant, and what clocks in the zone of the task show then."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    local: str


@dataclass(frozen=True, kw_only=True)
class ClockChange:
    """A change of clocks, and what becomes of the task."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    change: str
    effect: str


@dataclass(frozen=True, kw_only=True)
class TaskPreview:
    """The next runs of a task, stored or not, and each change of clocks in the next 13 months."""

    __pydantic_config__ = PYDANTIC

    schedule_type: TaskType
    schedule_expr: str
    timezone: str
    words: str
    next: tuple[Occasion, ...]
    clocks: tuple[ClockChange, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TaskLimits:
    """What the operator allows: how many tasks may be enabled (0: any number) and are, how often one may run, and what
    it may run; ``handler`` is taken where a task names none.
    """

    __pydantic_config__ = PYDANTIC

    enabled: int
    max_enabled: int
    shortest_interval: timedelta
    handler: str
    handlers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TaskReasons:
    """The status of a task, and the reasons why it does or does not run."""

    __pydantic_config__ = PYDANTIC

    id: str
    status: ScheduleStatus
    next_run_at: datetime | None = None
    reasons: tuple[Reason, ...]


# -- from core values --------------------------------------------------------------------------------------------------


def task_of(
    facts: Facts, language: Language, warnings: tuple[Why, ...] = (), *, deduplicated: bool = False
) -> ScheduledTask:
    """Return a task in document 001's words."""
    schedule, running = facts.schedule, facts.running
    return ScheduledTask(
        id=schedule.key,
        user_id=schedule.owner,
        name=schedule.title or schedule.key,
        enabled=facts.enabled,
        schedule_type=TYPES[schedule.kind],
        schedule_expr=_expression(schedule),
        timezone=schedule.zone,
        payload=schedule.payload,
        next_run_at=facts.next_run_at,
        last_run_at=None if facts.last is None else facts.last.finished_at,
        last_status=None if facts.last is None else status_of(facts.last.outcome),
        locked_by=None if running is None else running.worker_id,
        locked_until=None if running is None else running.leased_until,
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
        version=schedule.version,
        handler=schedule.handler,
        words=_describe(facts.effective, language),
        day_match=schedule.day_match,
        lenient=schedule.lenient,
        inactive=schedule.inactive is not None or schedule.paused_at is not None,
        reason=None if facts.reason is None else facts.reason.in_words(language),
        warnings=tuple(each.in_words(language) for each in (*warnings, *facts.notices)),
        deduplicated=deduplicated,
    )


def status_of(outcome: str) -> RunStatus:
    """Return document 001's word for how a run ended."""
    return STATUS.get(outcome, "failed")


def run_of(task_id: str, attempt: Attempt) -> ScheduledTaskRun:
    """Return an attempt in document 001's words."""
    run = attempt.run
    return ScheduledTaskRun(
        id=run.id,
        task_id=task_id,
        user_id=run.owner,
        status=status_of(run.outcome),
        trace_id=trace_id_of(run.trace_id),
        started_at=run.started_at,
        finished_at=run.finished_at,
        error=run.error,
        result=run.result,
        outcome=run.outcome,
        attempt=run.attempt,
        trigger=attempt.trigger,
        planned_at=run.fire_at,
        job_id=run.job_id,
        worker_id=run.worker_id,
    )


def preview_of(seen: Preview, language: Language, now: datetime) -> TaskPreview:
    """Return when a task runs, and what changes of clocks do to it."""
    schedule = seen.schedule
    rule = schedule.rule
    notes = () if rule is None else tuple(say(note, language) for note in warnings(rule, now))
    return TaskPreview(
        schedule_type=TYPES[schedule.kind],
        schedule_expr=_expression(schedule),
        timezone=schedule.zone,
        words=_describe(schedule, language),
        next=tuple(Occasion(at=fire, local=local(fire, schedule.zone).isoformat()) for fire in seen.fires),
        clocks=tuple(
            ClockChange(at=each.change.at, change=say_change(each.change, language), effect=say_effect(each, language))
            for each in ([] if rule is None else effects(rule, schedule.zone, now))
        ),
        warnings=(*(each.in_words(language) for each in seen.warnings), *notes),
    )


def _expression(schedule: Schedule) -> str:
    return "" if schedule.kind == "once" else schedule.expression


def _describe(schedule: Schedule, language: Language) -> str:
    """Return a schedule in words, or why this host cannot read it: an unknown zone must not hide the task."""
    try:
        return schedule.describe(language)
    except InvalidInput as problem:
        return str(problem)
