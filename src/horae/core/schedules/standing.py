"""How a schedule stands, in one word, and why it does not fire: every reason that holds, the strongest first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

from horae.core.jobs.reasons import Reason
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import iso
from horae.errors import InvalidInput

Standing = Literal["active", "disabled", "paused", "inactive", "follows", "local", "resting", "ended"]
PATIENCE = timedelta(seconds=5)  # so long a worker may be on its way before its absence is the reason


def standing(schedule: Schedule) -> Standing:
    """Return the word for a list: the strongest reason not to fire by itself, or ``active``."""
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
    """Return why it has no fire ahead at the time it names; nothing when it will simply fire."""
    return tuple(_stopped(schedule)) + tuple(_by_nature(schedule, now))


def _stopped(schedule: Schedule) -> Iterator[Reason]:
    if schedule.inactive is not None:
        yield Reason("inactive", f"it is inactive: {schedule.inactive}")
    if schedule.toggled is False:
        yield Reason("disabled", "it is switched off until a worker of its application starts again")
    elif not schedule.is_on:
        yield Reason("disabled", f"it is disabled (by {schedule.sources.get('enabled', 'default')})")
    if schedule.paused_at is not None:
        because = f": {schedule.pause_reason}" if schedule.pause_reason else ""
        by = schedule.paused_by or "somebody"
        yield Reason("paused", f"it was paused by {by} at {iso(schedule.paused_at)}{because}")


def _by_nature(schedule: Schedule, now: datetime) -> Iterator[Reason]:
    if schedule.is_spent:
        yield Reason("spent", f"it has fired {schedule.fire_count} of at most {schedule.max_fires} times")
    elif schedule.kind == "after":
        yield Reason("follows", f"it has no times of its own: it runs after {', '.join(schedule.after)} succeeded")
    elif schedule.mode == "ALL_NODES":
        yield Reason("local", "each node runs it by a timer of its own; its fires are not stored")
    elif schedule.next_fire_at is None and schedule.is_active:
        yield _pool_exhausted(schedule)
    elif schedule.is_active and (schedule.next_due_at or now) < now - PATIENCE:
        due = iso(schedule.next_due_at or now)
        yield Reason("due", f"it has been due since {due}, and no worker has come by to fire it")
    elif schedule.starts_at is not None and schedule.starts_at > now:
        yield Reason("not_yet", f"it begins at {iso(schedule.starts_at)}")


def _pool_exhausted(schedule: Schedule) -> Reason:
    if schedule.kind == "once":
        return Reason("passed", f"its one instant, {schedule.expression}, is behind it")
    if schedule.rests:
        return Reason("resting", "it counts from the end of its job, which has not ended yet")
    if schedule.ends_at is not None:
        return Reason("ended", f"it ends at {iso(schedule.ends_at)}, and no fire is left before that")
    return Reason("ended", "no fire is left")
