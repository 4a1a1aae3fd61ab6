"""Public values of schedules and of their fires, and the terms of a new or changed schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, TypedDict

from horae.api.jobs.room import Reason
from horae.api.values import Get, enrich
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Priority
from horae.core.jobs.retry import Retry
from horae.core.schedules.expect import expect_text
from horae.core.schedules.rules import Every
from horae.core.schedules.schedule import LIMITS, ONCE_ONLY, SPANS, FireKind, Kind, Misfire, Mode, Overlap, Verdict
from horae.core.schedules.schedule import Schedule as Stored
from horae.core.schedules.status import ScheduleStatus, describe_or_explain, schedule_status
from horae.core.schedules.windows import CalendarRule
from horae.core.time.instants import aware, iso
from horae.core.time.spans import Span, span
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput
from horae.words.languages import Language

# Fields of the core values that are not public.
HIDDEN = {"number", "calendar_days", "expected_since", "succeeded_at", "check_job"}
# Of an audit entry; the audit shows them.
HIDDEN_VERSION = {
    "object_type", "object_id", "owner", "evidence", "event_kind", "risk", "decision", "job", "correlation",
    "reason_digest", "private_reason",
}  # fmt: skip
RULES = ("cron", "every", "once", "after")


# -- terms -----------------------------------------------------------------------------------------------------------


class Timing(TypedDict, total=False):
    """The fields of a schedule: one of cron, every, once and after, and options; spans in seconds or as timedelta."""

    cron: str
    every: Span
    once: datetime
    after: Sequence[str]
    handler: str
    zone: str
    title: str | None
    group: str | None
    payload: dict[str, Any]
    queue: str
    priority: Priority
    day_match: Literal["and", "or"]
    gap: Literal["after", "skip"]
    fold: Literal["first", "both"]
    lenient: bool
    anchor: Literal["start", "finish"]
    initial_delay: Span
    misfire: Misfire
    catch_up: int
    spread: Span
    grace: Span
    overlap: Overlap
    jitter: Span
    retry: Retry
    timeout: Span | None
    mode: Mode
    lock_ttl: Span | None
    stale_timeout: Span | None
    budget: str | None
    cost: Mapping[str, int] | None
    quiet_hours: str | None
    calendar: str | None
    calendar_rule: CalendarRule
    expect: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    max_fires: int | None
    enabled: bool


def schedule_fields(timing: Mapping[str, Any], *, new: bool) -> dict[str, Any]:
    """Return terms as the fields of a core schedule; a new one needs a rule."""
    unknown = sorted(set(timing) - set(Timing.__annotations__))
    if unknown:
        raise InvalidInput("schedule_field_unknown", field=unknown[0], choices=list(Timing.__annotations__))
    rules = [rule for rule in RULES if rule in timing]
    if len(rules) > 1:
        raise InvalidInput("several_rules_given", rules=rules)
    if new and not rules:
        raise InvalidInput("no_rule_given")
    found = {name: _field(name, value) for name, value in timing.items() if name not in RULES}
    return found | (_rule(rules[0], timing[rules[0]]) if rules else {})


def _field(name: str, value: Any) -> Any:
    if name == "expect":
        return expect_text(value)
    return span(value) if name in (*SPANS, *LIMITS) and value is not None else value


def _rule(kind: str, value: Any) -> dict[str, Any]:
    if kind == "after":
        if not isinstance(value, list | tuple) or not all(isinstance(key, str) for key in value):
            raise InvalidInput("after_not_keys", value=repr(value))
        return {"kind": kind, "expression": "", "after": tuple(dict.fromkeys(value))}
    if kind == "every":
        seconds = Every(value).period.total_seconds()
        value = f"{seconds:.3f}".rstrip("0").rstrip(".")
    elif kind == "once":
        if not isinstance(value, datetime):
            raise InvalidInput("type_wrong", name="once", value=repr(value), expected="an aware datetime")
        value = iso(aware(value, "once"))
    return {"kind": kind, "expression": value, "after": ()}


# -- answers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ScheduleResult:
    """How one attempt at a job of a schedule ended; ``id`` is that of the run."""

    __pydantic_config__ = PYDANTIC

    id: str
    job_id: str
    outcome: str
    finished_at: datetime
    started_at: datetime | None = None
    fire_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule and its status.

    ``sources`` says where each value comes from (code, file, api …); ``toggled`` wins over ``enabled`` until a worker
    of its application starts again; ``tzdata`` is the edition of the zone database behind ``next_fire_at``.
    ``results`` are its last ones, the newest first, where they were asked for. ``expect`` says when a run must have
    succeeded, ``missed_at`` since when one is missing.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "status": schedule_status,
        "words": describe_or_explain,
        "results": lambda schedule: (),
    }

    key: str
    handler: str
    kind: Kind
    expression: str
    status: ScheduleStatus
    words: str
    owner: str = "system"
    title: str | None = None
    zone: str = "UTC"
    after: tuple[str, ...] = ()
    next_fire_at: datetime | None = None
    next_due_at: datetime | None = None
    last_fire_at: datetime | None = None
    fire_count: int = 0
    max_fires: int | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    payload: Any = None
    queue: str = "default"
    priority: Priority = "medium"
    group: str | None = None
    day_match: Literal["and", "or"] = "and"
    gap: Literal["after", "skip"] = "after"
    fold: Literal["first", "both"] = "first"
    lenient: bool = False
    anchor: Literal["start", "finish"] = "start"
    initial_delay: timedelta = timedelta(0)
    misfire: Misfire = "fire_once"
    catch_up: int = 1
    spread: timedelta = timedelta(minutes=1)
    grace: timedelta = timedelta(minutes=1)
    overlap: Overlap = "skip"
    jitter: timedelta = timedelta(0)
    retry: Retry = ONCE_ONLY
    timeout: timedelta | None = None
    mode: Mode = "SINGLE_NODE"
    lock_ttl: timedelta | None = None
    stale_timeout: timedelta | None = None
    budget: str | None = None
    cost: dict[str, int] | None = None
    quiet_hours: str | None = None
    calendar: str | None = None
    calendar_rule: CalendarRule = "exclude"
    expect: str | None = None
    missed_at: datetime | None = None
    enabled: bool = True
    toggled: bool | None = None
    inactive: str | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    paused_until: datetime | None = None
    declared: bool = False
    sources: dict[str, str] = field(default_factory=dict)
    tzdata: str = ""
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None
    results: tuple[ScheduleResult, ...] = ()

    def words_in(self, language: Language) -> str:
        """Return its rule in words of a language; as it came where this host cannot read the rule."""
        if language == "en":
            return self.words
        known = {each.name: getattr(self, each.name) for each in fields(Stored) if each.name not in HIDDEN}
        try:
            return Stored(**known).describe(language)
        except InvalidInput:
            return self.words


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A summary of the runs of a schedule."""

    __pydantic_config__ = PYDANTIC

    run_count: int = 0
    fail_count: int = 0
    last_outcome: str | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScheduleDetail(Schedule):
    """A schedule, how its runs went, and why it does not fire or which run is missing; no reason when all is well."""

    runs: RunSummary = field(default_factory=RunSummary)
    why: tuple[Reason, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fire:
    """The record of one due fire, or of ``count`` fires missed in a row, up to ``last_at``."""

    __pydantic_config__ = PYDANTIC

    fire_at: datetime
    kind: FireKind
    verdict: Verdict
    reason: str | None = None
    due_at: datetime | None = None
    last_at: datetime | None = None
    count: int = 1
    merged_into: datetime | None = None
    job_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Version:
    """One change of a schedule: who made it, how and why."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    actor: str
    verb: str
    reason: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The next fires of a schedule, and when the job of each may start: later in quiet hours of its owner."""

    __pydantic_config__ = PYDANTIC

    key: str
    fires: tuple[datetime, ...]
    starts: tuple[datetime, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Triggered:
    """The job that a trigger made, or the ``reason`` why there is none; ``fire`` is the record of it."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "key": lambda done: done.schedule.key,
        "triggered": lambda done: done.ran,
        "reason": lambda done: done.fire.reason,
        "fire": lambda done: enrich(Fire, done.fire, job_id=done.job_id),
    }

    key: str
    triggered: bool
    job_id: str | None = None
    reason: str | None = None
    fire: Fire


@dataclass(frozen=True, kw_only=True)
class Backfilled:
    """Which fires were made up for, or would be: ``missing`` in all, of which ``fires`` names the first thousand.

    ``present`` counts fires of the range that had become a job before.
    """

    __pydantic_config__ = PYDANTIC

    fires: tuple[datetime, ...]
    missing: int
    present: int
    job_ids: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, kw_only=True)
class ChangedGroup:
    """The keys of the schedules of a group that were changed; those that were so before are not among them."""

    __pydantic_config__ = PYDANTIC

    group: str
    changed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UpcomingFire:
    """One fire that will come; ``starts_at``: when its job may start, where quiet hours of its owner put it off."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    key: str
    owner: str
    handler: str
    queue: str
    starts_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class PileUp:
    """A minute with several fires."""

    __pydantic_config__ = PYDANTIC

    minute: datetime
    fires: int


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The fires up to ``until``, and the minutes with several fires, those with the most first.

    ``complete`` says whether that is as far as was asked for; ``total`` counts fires, listed or not.
    """

    __pydantic_config__ = PYDANTIC

    since: datetime
    until: datetime
    complete: bool
    total: int
    fires: tuple[UpcomingFire, ...]
    pile_ups: tuple[PileUp, ...]
    incomplete: tuple[str, ...] = ()
