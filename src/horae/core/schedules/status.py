"""The status of a schedule in one word, and why it does not fire: every reason that holds, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from horae.core.jobs.reasons import UNKNOWN, Reason, explained
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import iso
from horae.errors import InvalidInput

ScheduleStatus = Literal["active", "disabled", "paused", "inactive", "follows", "local", "resting", "ended"]
PATIENCE = timedelta(seconds=5)  # a due fire is this late before a missing worker is named as the reason


def schedule_status(schedule: Schedule) -> ScheduleStatus:
    """Return the status: the strongest reason not to fire by itself, or ``active``."""
    if schedule.inactive is not None:
        return "inactive"
    if not schedule.is_on:
        return "disabled"
    if schedule.paused_at is not None:
        return "paused"
    if schedule.mode == "ALL_NODES":
        return "local"
    if schedule.is_spent:
        return "ended"
    if schedule.kind == "after":
        return "follows"
    if schedule.next_fire_at is not None:
        return "active"
    return "resting" if schedule.rests else "ended"


def describe_or_explain(schedule: Schedule) -> str:
    """Describe the schedule in words; where this host cannot read its rule, say why not."""
    try:
        return schedule.describe()
    except InvalidInput as problem:
        return f"cannot be read: {problem}"


def why_silent(schedule: Schedule, now: datetime) -> tuple[Reason, ...]:
    """Return why the schedule will not fire at its next time, and since when a run is missing that was expected."""
    return tuple(_missing(schedule)) + tuple(_stopped(schedule)) + tuple(_by_nature(schedule, now))


def _missing(schedule: Schedule) -> Iterator[Reason]:
    if schedule.missed_at is not None:
        yield Reason("missed", "missed_deadline", {"due_at": iso(schedule.missed_at), "expect": schedule.expect})


def _stopped(schedule: Schedule) -> Iterator[Reason]:
    if schedule.inactive is not None:
        yield Reason("inactive", "inactive_because", {"because": schedule.inactive})
    if schedule.toggled is False:
        yield Reason("disabled", "switched_off")
    elif not schedule.is_on:
        yield Reason("disabled", "disabled_by", {"source": schedule.sources.get("enabled", "default")})
    if schedule.paused_at is not None:
        by, at = schedule.paused_by or UNKNOWN, iso(schedule.paused_at)
        yield explained("paused", "schedule_paused", schedule.pause_reason, by=by, paused_at=at)
        if schedule.paused_until is not None:
            yield Reason("paused", "pause_ends", {"until": iso(schedule.paused_until)})


def _by_nature(schedule: Schedule, now: datetime) -> Iterator[Reason]:
    if schedule.is_spent:
        yield Reason("spent", "fired_often_enough", {"count": schedule.fire_count, "most": schedule.max_fires})
    elif schedule.kind == "after":
        yield Reason("follows", "follows_others", {"leaders": schedule.after})
    elif schedule.mode == "ALL_NODES":
        yield Reason("local", "runs_on_each_node")
    elif schedule.next_fire_at is None and schedule.is_active:
        yield _pool_exhausted(schedule)
    elif schedule.is_active and (schedule.next_due_at or now) < now - PATIENCE:
        yield Reason("due", "overdue_since", {"due_at": iso(schedule.next_due_at or now)})
    elif schedule.starts_at is not None and schedule.starts_at > now:
        yield Reason("not_yet", "begins_later", {"starts_at": iso(schedule.starts_at)})
    else:
        yield from _in_window(schedule, now)


def _in_window(schedule: Schedule, now: datetime) -> Iterator[Reason]:
    """Name the window that keeps the next fire from its time."""
    planned = None if schedule.plain_rule is None else schedule.plain_rule.next_after(now)
    if schedule.next_fire_at is None or planned is None or planned >= schedule.next_fire_at:
        return
    facts = {"planned": iso(planned), "next": iso(schedule.next_fire_at)}
    awake = replace(schedule, calendar=None).rule
    if schedule.calendar is not None and (awake is None or awake.next_after(now) != schedule.next_fire_at):
        yield Reason("calendar", "kept_by_calendar", {**facts, "calendar": schedule.calendar})
    elif schedule.quiet_hours is not None:
        yield Reason("quiet", "kept_by_quiet", {**facts, "quiet": schedule.quiet_hours})


def _pool_exhausted(schedule: Schedule) -> Reason:
    if schedule.kind == "once":
        return Reason("passed", "instant_passed", {"expression": schedule.expression})
    if schedule.rests:
        return Reason("resting", "counts_from_end")
    if schedule.ends_at is not None:
        return Reason("ended", "ends_before_next", {"ends_at": iso(schedule.ends_at)})
    return Reason("ended", "no_fire_left")
