"""What becomes due when: a schedule, its policies, and what follows from the present instant.

A fire is identified by its schedule and its nominal instant. Deciding is pure: from a schedule, the time, and what of
it is still unfinished follow the fires to record, the jobs to run, and the next instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from horae.core.cron import Cron
from horae.core.instants import from_iso, iso
from horae.core.jobs import PRIORITIES, SYSTEM, Priority
from horae.core.retry import Retry
from horae.core.schedules import Every, Once, Rule
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
ONCE_ONLY = Retry.none()
MAX_COUNTED = 1_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a definition runs, and by which policies."""

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
    next_fire_at: datetime | None = None
    next_due_at: datetime | None = None
    tzdata: str = ""
    fire_count: int = 0
    last_fire_at: datetime | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.enabled and self.paused_at is None and self.inactive is None

    @property
    def rule(self) -> Rule | None:
        """The time rule; None for a schedule that only follows others."""
        if self.kind == "cron":
            return _cron(self.expression, self.zone, self.day_match, self.gap, self.fold, self.lenient)
        if self.kind == "every":
            return _every(self.expression, self.anchor, self.initial_delay, self.starts_at or self.created_at)
        return _once(self.expression) if self.kind == "once" else None

    def describe(self, language: Literal["en", "zh"] = "en") -> str:
        rule = self.rule
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
        raise InvalidInput(f"An interval is a number of seconds, not {seconds!r}.") from None
    return Every(period, anchor=anchor, initial_delay=initial_delay, start=start)


@lru_cache(maxsize=20_000)
def _once(moment: str) -> Once:
    return Once(from_iso(moment))


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
    into: datetime | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What of a schedule is still waiting or running."""

    running: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    retrying: tuple[int, ...] = ()
    seen_at: Mapping[int, datetime] = field(default_factory=dict)  # when a running one last showed progress

    @property
    def busy(self) -> bool:
        return bool(self.running or self.waiting)


@dataclass(frozen=True, slots=True)
class Firing:
    """What follows for one schedule now."""

    schedule: Schedule
    fires: tuple[Fire, ...]  # those whose verdict is "ran" become jobs
    next_fire_at: datetime | None
    next_due_at: datetime | None
    fire_count: int
    dropped: tuple[int, ...] = ()  # jobs that waited for a retry and yield to the new occurrence
    silent: tuple[int, ...] = ()  # running jobs without progress for too long: closed as lost


def first_fire(schedule: Schedule, now: datetime) -> datetime | None:
    """The first nominal instant of a schedule made or changed now."""
    if schedule.kind == "every":
        rule = schedule.rule
        assert isinstance(rule, Every)
        begin = rule.first_fire(schedule.created_at or now)
        return _within(schedule, begin if begin >= now else rule.next_after(now))
    if schedule.kind == "once":
        return _within(schedule, from_iso(schedule.expression))  # a past instant fires at once
    return next_fire(schedule, now)


def next_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """The next nominal instant strictly after an instant, within the schedule's bounds."""
    rule = schedule.rule
    if rule is None:
        return None
    begin = after if schedule.starts_at is None else max(after, schedule.starts_at - timedelta(microseconds=1))
    return _within(schedule, rule.next_after(begin))


def _within(schedule: Schedule, moment: datetime | None) -> datetime | None:
    if moment is None or (schedule.ends_at is not None and moment > schedule.ends_at):
        return None
    return moment


def due_at(schedule: Schedule, fire_at: datetime | None, roll: float) -> datetime | None:
    """The nominal instant plus jitter: drawn once, forward only."""
    return None if fire_at is None else fire_at + schedule.jitter * roll


def decide(schedule: Schedule, now: datetime, unfinished: Unfinished, roll: float) -> Firing:
    """What becomes of a schedule whose next fire has come."""
    first = schedule.next_fire_at
    assert first is not None
    count, recent = _missed(schedule, first, now)
    fires = list(_by_misfire(schedule, first, recent, count, now))
    dropped: tuple[int, ...] = ()
    silent = _silent(schedule, unfinished, now)
    unfinished = replace(unfinished, running=tuple(job for job in unfinished.running if job not in silent))
    if schedule.overlap != "allow":
        fires = _by_overlap(schedule, fires, unfinished)
        if any(fire.verdict == "ran" for fire in fires):
            dropped = unfinished.retrying
    ran = sum(fire.verdict == "ran" for fire in fires)
    total = schedule.fire_count + ran
    follows = (
        None if schedule.kind == "every" and schedule.anchor == "finish" and ran else next_fire(schedule, recent[-1])
    )
    if schedule.max_fires is not None and total >= schedule.max_fires:
        follows = None
    return Firing(schedule, tuple(fires), follows, due_at(schedule, follows, roll), total, dropped, silent)


def _silent(schedule: Schedule, unfinished: Unfinished, now: datetime) -> tuple[int, ...]:
    """Running jobs that have shown no progress for longer than the schedule allows."""
    allowed = schedule.stale_timeout
    if allowed is None:
        return ()
    return tuple(job for job in unfinished.running if now - unfinished.seen_at.get(job, now) > allowed)


def _missed(schedule: Schedule, first: datetime, now: datetime) -> tuple[int, tuple[datetime, ...]]:
    """How many fires lie between the first and now, and the last few of them."""
    rule = schedule.rule
    if rule is None or (isinstance(rule, Every) and rule.anchor == "finish") or schedule.kind == "once":
        return 1, (first,)
    until = now if schedule.ends_at is None else min(now, schedule.ends_at)
    return _counted(rule, first, until, schedule.catch_up)  # type: ignore[arg-type]  # all rules are frozen values


@lru_cache(maxsize=4096)
def _counted(rule: Rule, first: datetime, until: datetime, keep: int) -> tuple[int, tuple[datetime, ...]]:
    """Cached, because thousands of schedules may share a rule and have missed the same time."""
    if isinstance(rule, Every):
        beyond = max(0, (until - first) // rule.period)
        kept = range(max(0, beyond - keep + 1), beyond + 1)
        return beyond + 1, tuple(first + place * rule.period for place in kept)
    count, recent = 1, [first]
    for fire in rule.between(first, until):
        count += 1
        recent = [*recent[-keep + 1 :], fire] if keep > 1 else [fire]
        if count >= MAX_COUNTED:
            break
    return count, tuple(recent)


def _by_misfire(
    schedule: Schedule, first: datetime, recent: tuple[datetime, ...], count: int, now: datetime
) -> list[Fire]:
    """Which of the fires that have come are run, and what is recorded of the others."""
    last = recent[-1]
    due = schedule.next_due_at if count == 1 and schedule.next_due_at is not None else last
    timely = now - max(due, last) <= schedule.grace
    if schedule.misfire == "catch_up" and count > 1:
        kept = recent[-schedule.catch_up :]
        step = schedule.spread / len(kept)
        runs = [Fire(fire, "ran", due_at=now + step * place) for place, fire in enumerate(kept)]
        return [*_earlier(first, kept[0], count - len(kept), "skipped", "misfire", None), *runs]
    if schedule.misfire == "skip":
        before = _earlier(first, last, count - 1, "skipped", "misfire", None)
        return [*before, Fire(last, "ran", due_at=due) if timely else Fire(last, "skipped", reason="misfire")]
    return [*_earlier(first, last, count - 1, "merged", "misfire", last), Fire(last, "ran", due_at=due)]


def _earlier(
    first: datetime, bound: datetime, count: int, verdict: Verdict, reason: str, into: datetime | None
) -> list[Fire]:
    """One record for all the fires before the bound."""
    if count < 1:
        return []
    return [Fire(first, verdict, reason=reason, last_at=bound, count=count, into=into)]


def _by_overlap(schedule: Schedule, fires: list[Fire], unfinished: Unfinished) -> list[Fire]:
    """At most one job at a time: what finds another unfinished is skipped, or waits for it."""
    told: list[Fire] = []
    room = 0 if unfinished.busy else 1
    if schedule.overlap == "queue_one":
        room = 0 if unfinished.waiting else (1 if unfinished.running else 2)
    several = schedule.misfire == "catch_up" and len([fire for fire in fires if fire.verdict == "ran"]) > 1
    for fire in fires:
        if fire.verdict != "ran" or (several and not unfinished.busy):
            told.append(fire)
        elif room > 0:
            room -= 1
            told.append(fire)
        else:
            told.append(Fire(fire.fire_at, "skipped", fire.kind, reason="running", due_at=fire.due_at))
    return told


def check(schedule: Schedule) -> Schedule:
    """Refuse what cannot work; every rule is built once, so that its own refusal is heard now."""
    choices: list[tuple[str, str, tuple[str, ...]]] = [
        ("kind", schedule.kind, KINDS),
        ("misfire", schedule.misfire, MISFIRES),
        ("overlap", schedule.overlap, OVERLAPS),
        ("mode", schedule.mode, MODES),
        ("priority", schedule.priority, PRIORITIES),
    ]
    for name, value, allowed in choices:
        if value not in allowed:
            raise InvalidInput(f"{name}={value!r} is not known; choose one of {', '.join(allowed)}.")
    if not 1 <= schedule.catch_up <= 1000:
        raise InvalidInput(f"catch_up={schedule.catch_up} is outside 1 to 1000.")
    if schedule.max_fires is not None and schedule.max_fires < 1:
        raise InvalidInput("max_fires must be at least 1, or None for no bound.")
    for name in ("jitter", "grace", "spread"):
        if getattr(schedule, name) < timedelta(0):
            raise InvalidInput(f"{name} cannot be negative.")
    if schedule.kind == "after" and not schedule.after:
        raise InvalidInput("A schedule that follows others must name at least one of them in after=[…].")
    if schedule.starts_at and schedule.ends_at and schedule.ends_at <= schedule.starts_at:
        raise InvalidInput(f"ends_at {iso(schedule.ends_at)} is not later than starts_at {iso(schedule.starts_at)}.")
    _ = schedule.rule
    return schedule


def cycle(edges: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """A circle among "follows" relations, as the path that closes it; None when there is none."""
    done: set[str] = set()

    def walk(key: str, path: tuple[str, ...]) -> tuple[str, ...] | None:
        if key in path:
            return (*path[path.index(key) :], key)
        if key in done:
            return None
        for parent in edges.get(key, ()):
            found = walk(parent, (*path, key))
            if found:
                return found
        done.add(key)
        return None

    return next((found for key in sorted(edges) if (found := walk(key, ()))), None)
