"""The terms of a schedule as they are stored: masks filled, an H of its cron spread, its calendar's days copied."""

from __future__ import annotations

from dataclasses import replace

from horae.core.jobs.masking import unmask
from horae.core.schedules.schedule import Schedule
from horae.core.time.cron_hash import spread_by_hash
from horae.errors import InvalidInput
from horae.ports.store import Tx


def spread(schedule: Schedule) -> Schedule:
    """Return the schedule with every H of its cron replaced by the number that follows from owner and key."""
    if schedule.kind != "cron":
        return schedule
    expression = spread_by_hash(
        schedule.expression, f"{schedule.owner}/{schedule.key}", lenient=schedule.lenient is True
    )  # fmt: skip
    return schedule if expression == schedule.expression else replace(schedule, expression=expression)


def keep_masked(before: Schedule, after: Schedule) -> Schedule:
    """Return a changed schedule with the stored values where its payload has masks; none for another handler."""
    if after.payload == before.payload or not isinstance(after.payload, dict):
        return after
    known = before.payload if after.handler == before.handler else None
    return replace(after, payload=unmask(after.payload, known))


def with_days(tx: Tx, schedule: Schedule, before: Schedule | None = None) -> Schedule:
    """Return the schedule with the days of its calendar, which must exist and stays as it is until the commit.

    A schedule that was stored with the same calendar has its days already.
    """
    if schedule.calendar == (None if before is None else before.calendar):
        return schedule
    if schedule.calendar is None:
        return replace(schedule, calendar_days=())
    found = tx.calendars.get(schedule.calendar, lock=True)
    if found is None:
        raise InvalidInput("calendar_missing", name=schedule.calendar)
    return replace(schedule, calendar_days=found.days)
