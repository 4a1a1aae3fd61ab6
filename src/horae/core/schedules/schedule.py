"""Schedules: their fields and policies, their validation, and their next fire.

A fire is identified by its schedule and its nominal instant. What becomes of it is decided in
:mod:`horae.core.schedules.decisions`.
"""

# size: one value with all its fields, and the checks of each
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import job_budget
from horae.core.jobs.job import PRIORITIES, SYSTEM, Priority
from horae.core.jobs.payloads import name as checked_name
from horae.core.jobs.retry import LONGEST, Retry
from horae.core.schedules.expect import check_expect
from horae.core.schedules.rules import Every, Once, Rule
from horae.core.schedules.windows import CalendarRule, check_windows, in_windows
from horae.core.time.cron import DAY_MATCHES, FOLDS, GAPS, Cron
from horae.core.time.instants import MICROSECOND, aware, earlier, from_iso, iso, later
from horae.core.time.zones import zone_named
from horae.core.values import replacing, swift
from horae.errors import InvalidInput

Kind = Literal["cron", "every", "once", "after"]
Misfire = Literal["fire_once", "skip", "catch_up"]
Overlap = Literal["skip", "queue_one", "allow"]
Mode = Literal["SINGLE_NODE", "ALL_NODES"]
Verdict = Literal["ran", "skipped", "merged", "failed"]
FireKind = Literal["schedule", "manual", "backfill"]

KINDS: tuple[Kind, ...] = ("cron", "every", "once", "after")
MISFIRES: tuple[Misfire, ...] = ("fire_once", "skip", "catch_up")
OVERLAPS: tuple[Overlap, ...] = ("skip", "queue_one", "allow")
MODES: tuple[Mode, ...] = ("SINGLE_NODE", "ALL_NODES")
ANCHORS = ("start", "finish")
ONCE_ONLY = Retry.none()
MAX_EXPRESSION = 255
MAX_TITLE = 255
MAX_FIRES = 2**31 - 1
SPANS = ("initial_delay", "spread", "grace", "jitter")
LIMITS = ("timeout", "lock_ttl", "stale_timeout")  # None: there is none
# The types of values, checked before they are compared.
SHAPES: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (str, "text", ("expression", "zone", "quiet_hours", "calendar", "expect")),
    (bool, "True or False", ("enabled", "lenient")),
    (int, "a whole number", ("catch_up", "max_fires")),
    (timedelta, "a timedelta", (*SPANS, *LIMITS)),
    (datetime, "an aware datetime", ("starts_at", "ends_at")),
    (Retry, "a Retry", ("retry",)),
)
MAY_BE_NONE = ("quiet_hours", "calendar", "expect", "max_fires", "starts_at", "ends_at", *LIMITS)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: when a definition runs, and by which policies."""

    key: str
    handler: str
    kind: Kind
    expression: str
    zone: str = "UTC"
    number: int = 0
    owner: str = SYSTEM
    group: str | None = None
    payload: Any = field(default_factory=dict)
    queue: str = "default"
    priority: Priority = "medium"
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
    after: tuple[str, ...] = ()
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None
    enabled: bool = True
    declared: bool = False
    inactive: str | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    paused_until: datetime | None = None  # when the pause ends by itself; None: when an operator resumes it
    next_fire_at: datetime | None = None
    next_due_at: datetime | None = None
    tzdata: str = ""
    fire_count: int = 0
    last_fire_at: datetime | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None
    title: str | None = None
    toggled: bool | None = None  # wins over ``enabled`` until a worker of its application starts again
    budget: str | None = None  # who pays for its jobs: the name of a budget, or name/agent
    cost: Mapping[str, int] | None = None  # the most that one attempt may cost, by unit; None: one call
    quiet_hours: str | None = None  # hours of the day without fires: 22:00-07:00
    calendar: str | None = None  # the name of a calendar, and what its days mean
    calendar_rule: CalendarRule = "exclude"
    calendar_days: tuple[str, ...] = ()  # a copy of its days, kept up to date with it
    expect: str | None = None  # when a run must have succeeded: within 10m, by 06:00, every 1d
    expected_since: datetime | None = None  # up to where its deadlines are judged
    succeeded_at: datetime | None = None  # a success that came late, until the next check
    missed_at: datetime | None = None  # the deadline since when a run is missing; None: nothing is missing
    check_job: int | None = None  # the job of Horae's own that looks at the next deadline

    @property
    def is_on(self) -> bool:
        return self.enabled if self.toggled is None else self.toggled

    @property
    def is_active(self) -> bool:
        return self.is_on and self.paused_at is None and self.inactive is None

    @property
    def is_spent(self) -> bool:
        """Whether it has fired as often as it may."""
        return self.is_spent_after(self.fire_count)

    def is_spent_after(self, fires: int) -> bool:
        """Return whether so many fires are as many as it may have."""
        return self.max_fires is not None and fires >= self.max_fires

    @property
    def rests(self) -> bool:
        """Whether it counts from the end of its job, and so has no next fire while one is unfinished."""
        return self.kind == "every" and self.anchor == "finish"

    @property
    def rule(self) -> Rule | None:
        """The time rule inside its windows; None for a schedule that only follows others."""
        rule = self.plain_rule
        if rule is None or (self.quiet_hours is None and self.calendar is None):
            return rule
        return _in_windows(rule, self.zone, self.quiet_hours, self.calendar, self.calendar_days, self.calendar_rule)

    @property
    def plain_rule(self) -> Rule | None:
        """The time rule without quiet hours and calendar."""
        if self.kind == "cron":
            return _cron(self.expression, self.zone, self.day_match, self.gap, self.fold, self.lenient)
        if self.kind == "every":
            return _every(self.expression, self.anchor, self.initial_delay, self.starts_at or self.created_at)
        return _once(self.expression) if self.kind == "once" else None

    def after_finish(self, now: datetime) -> datetime | None:
        """Return when it fires next, one of its jobs having ended now; None where that moves nothing."""
        counts = self.rests and self.next_fire_at is None and self.mode == "SINGLE_NODE"
        return next_fire(self, now) if counts and self.is_active and not self.is_spent else None

    def after_success(self, now: datetime) -> Schedule | None:
        """Return what is expected of it, a run having succeeded now; None where that changes nothing."""
        if self.expect is None:
            return None
        from horae.core.schedules.expectations import after_success  # for those of which something is expected

        return after_success(self, now)

    def after_leaders(self, now: datetime) -> datetime | None:
        """Return when it fires, all that it follows having succeeded now; None where it must not."""
        too_early = self.starts_at is not None and now < self.starts_at
        if not self.is_active or self.is_spent or too_early:
            return None
        fired = self.last_fire_at
        return _within(self, now if fired is None or fired < now else fired + MICROSECOND)

    def describe(self, language: Literal["en", "zh"] = "en") -> str:
        rule = self.rule
        if isinstance(rule, Once):
            from horae.core.schedules.words import describe_once  # when asked for, as rules do

            return describe_once(rule.at, language, self.zone)
        if rule is not None:
            return rule.describe(language)
        names = ", ".join(self.after)
        return f"after {names} succeeded" if language == "en" else f"在 {names} 成功之后"


@lru_cache(maxsize=20_000)
def _cron(expression: str, zone: str, day_match: Any, gap: Any, fold: Any, lenient: bool) -> Cron:
    return Cron(expression, zone, day_match=day_match, gap=gap, fold=fold, lenient=lenient)


@lru_cache(maxsize=20_000)
def _every(seconds: str, anchor: Any, initial_delay: timedelta, start: datetime | None) -> Every:
    try:
        period = float(seconds)
    except ValueError:
        raise InvalidInput("interval_unreadable", name="interval", value=repr(seconds)) from None
    return Every(period, anchor=anchor, initial_delay=initial_delay, start=start)


@lru_cache(maxsize=20_000)
def _once(moment: str) -> Once:
    return Once(from_iso(moment))


_in_windows = lru_cache(maxsize=20_000)(in_windows)
make_schedule = swift(Schedule)
changed = replacing(Schedule, make_schedule)  # like dataclasses.replace, and quicker


@dataclass(frozen=True, slots=True)
class Fire:
    """One occurrence, or a run of consecutive missed ones (then ``last_at`` and ``count`` say how many)."""

    fire_at: datetime
    verdict: Verdict
    kind: FireKind = "schedule"
    reason: str | None = None
    due_at: datetime | None = None
    last_at: datetime | None = None
    count: int = 1
    merged_into: datetime | None = None


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """How one attempt at a job of a schedule ended."""

    job_number: int
    token: int
    outcome: str
    finished_at: datetime
    started_at: datetime | None = None
    fire_at: datetime | None = None

    @property
    def job_id(self) -> str:
        return job_id(self.job_number)

    @property
    def id(self) -> str:
        """The id of the run."""
        return f"{self.job_id}.{self.token}"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The jobs of a schedule that still wait or run."""

    running: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    retrying: Mapping[int, datetime] = field(default_factory=dict)  # and when they are due
    locked_out: tuple[int, ...] = ()  # put back because of their lock; a new occurrence takes their place
    seen_at: Mapping[int, datetime] = field(default_factory=dict)  # when a running one last showed progress

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)

    def at(self, now: datetime) -> Unfinished:
        """Return what is unfinished as of *now*: a retry that is due already waits for a worker only.

        So a job that has lost its worker does not yield to the next occurrence (C-13).
        """
        due = tuple(job for job, run_at in self.retrying.items() if run_at < now)
        if not due:
            return self
        later = {job: run_at for job, run_at in self.retrying.items() if run_at >= now}
        return replace(self, waiting=(*self.waiting, *due), retrying=later)


@dataclass(frozen=True, slots=True)
class Firing:
    """The decision about one due schedule: its fires, and when it is due next."""

    schedule: Schedule
    fires: tuple[Fire, ...]  # those whose verdict is "ran" become jobs
    next_fire_at: datetime | None
    next_due_at: datetime | None
    fire_count: int
    dropped: tuple[int, ...] = ()  # jobs that waited for a retry and yield to the new occurrence
    silent: tuple[int, ...] = ()  # running jobs without progress for too long: closed as lost


def first_fire(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the first nominal instant of a schedule made or changed now; never one that it has fired already."""
    fired = schedule.last_fire_at
    if schedule.kind == "once":
        at = from_iso(schedule.expression)  # a past instant fires at once
        return None if at == fired else _within(schedule, at)
    begin = now if fired is None else max(now, fired)
    rule, plain = schedule.rule, schedule.plain_rule
    if rule is not None and isinstance(plain, Every):
        first: datetime | None = plain.first_fire(schedule.created_at or now)
        if first is not None and rule is not plain:
            first = rule.next_after(earlier(first, MICROSECOND))
        is_new = first is not None and first >= begin and first != fired
        return _within(schedule, first if is_new else rule.next_after(begin))
    return next_fire(schedule, begin)


def next_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the next nominal instant strictly after an instant, within the schedule's bounds."""
    rule = schedule.rule
    if rule is None:
        return None
    begin = after if schedule.starts_at is None else max(after, earlier(schedule.starts_at, MICROSECOND))
    return _within(schedule, _next_cached(rule, begin))


@lru_cache(maxsize=4096)
def _next_cached(rule: Rule, after: datetime) -> datetime | None:
    """Return the next instant of a rule, cached: the schedules of a burst share few rules and one instant."""
    return rule.next_after(after)


def _within(schedule: Schedule, moment: datetime | None) -> datetime | None:
    if moment is None or (schedule.ends_at is not None and moment > schedule.ends_at):
        return None
    return moment


def due_at(schedule: Schedule, fire_at: datetime | None, roll: float) -> datetime | None:
    """Return the nominal instant plus jitter: drawn once, forward only."""
    return None if fire_at is None else later(fire_at, schedule.jitter * roll)


def check(schedule: Schedule) -> Schedule:
    """Refuse what cannot work; every rule is built once, so that its own refusal is heard now."""
    choices: list[tuple[str, str, tuple[str, ...]]] = [
        ("kind", schedule.kind, KINDS),
        ("misfire", schedule.misfire, MISFIRES),
        ("overlap", schedule.overlap, OVERLAPS),
        ("mode", schedule.mode, MODES),
        ("priority", schedule.priority, PRIORITIES),
        ("anchor", schedule.anchor, ANCHORS),
        ("day_match", schedule.day_match, DAY_MATCHES),
        ("gap", schedule.gap, GAPS),
        ("fold", schedule.fold, FOLDS),
    ]
    for name, value, allowed in choices:
        if value not in allowed:
            raise InvalidInput("choice_unknown", name=name, value=str(value), choices=list(allowed))
    _check_shapes(schedule)
    _check_numbers(schedule)
    zone_named(schedule.zone)
    if schedule.group is not None:
        checked_name(schedule.group, "group")
    if schedule.title and not (schedule.title.isprintable() and len(schedule.title) <= MAX_TITLE):
        raise InvalidInput("title_unprintable", most=MAX_TITLE)
    if schedule.kind == "after" and not schedule.after:
        raise InvalidInput("after_missing")
    if schedule.after and schedule.kind != "after":
        raise InvalidInput("after_and_times", kind=schedule.kind)
    for name in ("starts_at", "ends_at"):
        if (moment := getattr(schedule, name)) is not None:
            aware(moment, name)
    if schedule.starts_at and schedule.ends_at and schedule.ends_at <= schedule.starts_at:
        raise InvalidInput("ends_before_start", ends_at=iso(schedule.ends_at), starts_at=iso(schedule.starts_at))
    if len(schedule.expression) > MAX_EXPRESSION:
        raise InvalidInput("expression_too_long", length=len(schedule.expression), most=MAX_EXPRESSION)
    check_windows(
        schedule.plain_rule, schedule.kind, schedule.quiet_hours, schedule.calendar, schedule.calendar_rule
    )  # fmt: skip
    check_expect(schedule.expect, schedule.kind, schedule.mode)
    if job_budget(schedule.budget, schedule.cost) is not None and schedule.mode == "ALL_NODES":
        raise InvalidInput("budget_on_all_nodes")
    return schedule


def _check_shapes(schedule: Schedule) -> None:
    for kind, said, names in SHAPES:
        for name in names:
            value = getattr(schedule, name)
            if value is None and name in MAY_BE_NONE:
                continue
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise InvalidInput("type_wrong", name=name, value=repr(value), expected=said)


def _check_numbers(schedule: Schedule) -> None:
    if not 1 <= schedule.catch_up <= 1000:
        raise InvalidInput("out_of_range", name="catch_up", value=schedule.catch_up, least=1, most=1000)
    if schedule.max_fires is not None and not 1 <= schedule.max_fires <= MAX_FIRES:
        raise InvalidInput("out_of_range", name="max_fires", value=schedule.max_fires, least=1, most=MAX_FIRES)
    for name in SPANS:
        if getattr(schedule, name) < timedelta(0):
            raise InvalidInput("span_negative", name=name)
    for name in LIMITS:
        value = getattr(schedule, name)
        if value is not None and value <= timedelta(0):
            raise InvalidInput("no_time_left", name=name, value=value.total_seconds())
    for name in (*SPANS, *LIMITS):
        if (getattr(schedule, name) or timedelta(0)) > LONGEST:
            raise InvalidInput(
                "span_too_long", name=name, value=getattr(schedule, name).total_seconds(), most_days=LONGEST.days
            )
