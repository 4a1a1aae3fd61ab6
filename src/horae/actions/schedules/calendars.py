"""The verbs of calendars: set, delete, list; and the days that a schedule takes from its own.

A schedule keeps a copy of the days of its calendar, so that firing reads nothing else. Who changes a calendar changes
every schedule that names it, with its next fire, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from horae.actions.schedules.schedules import lock_schedule, write_version
from horae.core.audit.entries import Entry
from horae.core.cursors import MAX_PAGE
from horae.core.jobs.job import SYSTEM
from horae.core.schedules.day_lists import Calendar, check_calendar
from horae.core.schedules.schedule import Schedule
from horae.errors import Conflict, InvalidInput, NotFound, StoreError, VersionConflict
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
    actor: str = SYSTEM,
    reason: str = "",
) -> Calendar:
    """Make a calendar, or replace its days; the schedules that use it follow. With *version*, only at that version.

    A new calendar has version 1; before that it is at version 0. In a cluster it is decided on at home and copied to
    every database; one that is away keeps the old days until this is repeated, or shards are moved there.
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
        after = replace(wanted, version=known + 1)
        if before is None:
            tx.calendars.add(after)
        else:
            tx.calendars.put(after)
        _note(tx, "put", before, after, actor, reason)
        _follow(world, tx, after, actor)
        return after

    made = world.route().store.transact(write)
    world.route().store.wake(["*"])
    _copy_everywhere(world, made, actor)
    return made


def _copy_everywhere(world: World, calendar: Calendar, actor: str) -> None:
    """Copy a calendar to the other databases of a cluster; where one is away, that is the error, after all others."""
    problems = list[StoreError]()
    for shard in _copies(world):
        try:
            shard.route().store.transact(partial(_copy, shard, calendar, actor))
            shard.route().store.wake(["*"])
        except StoreError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]


def _copies(world: World) -> list[World]:
    """Return the worlds of a cluster's databases but the home; a calendar is decided on at home, then copied to all."""
    home = world.within(owner=SYSTEM)[0].route().store
    return [] if world.cluster is None else [each for each in world.databases() if each.route().store is not home]


def _copy(world: World, calendar: Calendar, actor: str, tx: Tx) -> None:
    """Take over a calendar from the home, unless a newer one is here; the schedules that use it follow."""
    before = tx.calendars.get(calendar.name, lock=True)
    if before is None:
        tx.calendars.add(calendar)
    elif before.version < calendar.version:
        tx.calendars.put(calendar)
    _follow(world, tx, calendar if before is None or before.version < calendar.version else before, actor)


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

    def remove(tx: Tx) -> Calendar | None:
        before = tx.calendars.get(name, lock=True)
        users = [schedule.key for schedule in _users(tx, name)]
        if users:
            raise Conflict("calendar_in_use", name=name, schedules=users[:MOST_NAMED])
        tx.calendars.remove(name)
        return before

    def write(tx: Tx) -> None:
        before = remove(tx)
        if before is None:
            raise NotFound("calendar_unknown", name=name)
        _note(tx, "delete", replace(before, updated_at=world.clock.now()), None, actor, reason)

    for shard in _copies(world):
        shard.route().store.transact(remove)
    world.route().store.transact(write)


def list_calendars(world: World) -> list[Calendar]:
    """Return all calendars, by name."""
    return world.route().store.read(lambda tx: tx.calendars.all())


def get_calendar(world: World, name: str) -> tuple[Calendar, list[Schedule]]:
    """Return a calendar and the schedules that use it, in each database read in one moment."""

    def read(tx: Tx) -> tuple[Calendar, list[Schedule]]:
        found = tx.calendars.get(name)
        if found is None:
            raise NotFound("calendar_unknown", name=name)
        return found, _users(tx, name)

    found, users = world.route().store.read(read)
    for shard in _copies(world):
        users += shard.route().store.read(lambda tx: _users(tx, name))
    return found, users


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
