"""The verbs of calendars: set, delete, list; and the days that a schedule takes from its own.

A schedule keeps a copy of the days of its calendar, so that firing reads nothing else. Who changes a calendar changes
every schedule that names it, with its next fire, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from horae.actions.schedules.schedules import lock_schedule, write_version
from horae.core.audit.entries import Entry
from horae.core.cursors import MAX_PAGE
from horae.core.jobs.job import SYSTEM
from horae.core.schedules.day_lists import Calendar, check_calendar
from horae.core.schedules.schedule import Schedule
from horae.errors import Conflict, InvalidInput, NotFound, VersionConflict
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.ports.world import World

MOST_NAMED = 5  # schedules that a refusal names


def set_calendar(
    world: World,
    name: str,
    days: Sequence[str],
    *,
    title: str | None = None,
    version: int | None = None,
    becomes: int | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> Calendar:
    """Make a calendar, or replace its days; the schedules that use it follow. With *version*, only at that version.

    A new calendar has version 1; before that it is at version 0. In a cluster copies of it are made with the version
    that it *becomes*.
    """
    now = world.clock.now()
    if isinstance(days, str) or not isinstance(days, Sequence):
        raise InvalidInput("type_wrong", name="days", value=repr(days), expected="a list of texts")
    wanted = check_calendar(Calendar(name, tuple(days), title, updated_at=now))

    def write(tx: Tx) -> Calendar:
        before = tx.calendars.get(name, lock=True)
        known = 0 if before is None else before.version
        if version is not None and version != known:
            raise VersionConflict("calendar_version_old", name=name, version=known, expected=version)
        after = replace(wanted, version=known + 1 if becomes is None else becomes)
        if before is None:
            tx.calendars.add(after)
        else:
            tx.calendars.put(after)
        _note(tx, "put", before, after, actor, reason)
        _follow(world, tx, after, actor)
        return after

    made = world.route().store.transact(write)
    world.route().store.wake(["*"])
    return made


def follow_all(world: World, tx: Tx) -> None:
    """Let schedules that have come from another database follow the calendars of this one, which may be newer."""
    for calendar in tx.calendars.all():
        _follow(world, tx, calendar, SYSTEM)


def _follow(world: World, tx: Tx, calendar: Calendar, actor: str) -> None:
    for schedule in _users(tx, calendar.name):
        if schedule.calendar_days == calendar.days:
            continue
        locked = lock_schedule(tx, schedule.key, schedule.owner)
        changed = replace(locked, calendar_days=calendar.days)
        if locked.calendar == calendar.name and changed != locked:
            write_version(world, tx, locked, changed, "change", actor, f"calendar {calendar.name}")


def delete_calendar(world: World, name: str, *, actor: str = SYSTEM, reason: str = "") -> None:
    """Delete a calendar that no schedule uses."""

    def write(tx: Tx) -> None:
        before = tx.calendars.get(name, lock=True)
        if before is None:
            raise NotFound("calendar_unknown", name=name)
        users = [schedule.key for schedule in _users(tx, name)]
        if users:
            raise Conflict("calendar_in_use", name=name, schedules=users[:MOST_NAMED])
        tx.calendars.remove(name)
        _note(tx, "delete", replace(before, updated_at=world.clock.now()), None, actor, reason)

    world.route().store.transact(write)


def remove_copy(world: World, name: str, *, actor: str = SYSTEM, reason: str = "") -> None:
    """Delete a calendar where it is, as another database of the cluster has; refused while a schedule here uses it."""
    with suppress(NotFound):
        delete_calendar(world, name, actor=actor, reason=reason)


def list_calendars(world: World) -> list[Calendar]:
    """Return all calendars, by name."""
    return world.route().store.read(lambda tx: tx.calendars.all())


def get_calendar(world: World, name: str) -> tuple[Calendar, list[Schedule]]:
    """Return a calendar and the schedules that use it, read in one moment."""

    def read(tx: Tx) -> tuple[Calendar, list[Schedule]]:
        found = tx.calendars.get(name)
        if found is None:
            raise NotFound("calendar_unknown", name=name)
        return found, _users(tx, name)

    return world.route().store.read(read)


def _users(tx: Tx, name: str) -> list[Schedule]:
    """Return the schedules that use a calendar."""
    found: list[Schedule] = []
    while page := tx.schedules.find(
        ScheduleFilter(calendar=name), limit=MAX_PAGE, after=found[-1] if found else None
    ):  # fmt: skip
        found += page
    return found


def _note(tx: Tx, verb: str, before: Calendar | None, after: Calendar | None, actor: str, reason: str) -> None:
    seen = after or before
    assert seen is not None
    assert seen.updated_at is not None
    old, new = ({} if each is None else {"days": list(each.days), "title": each.title} for each in (before, after))
    tx.audit.append(
        Entry(seen.updated_at, actor, verb, "calendar", seen.name, reason=reason or None, before=old, after=new)
    )
