"""Calendars and quiet hours, from the verb to what fires; on three databases, because the days are stored twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.audit import find_entries
from horae.actions.schedules import calendars, schedules
from horae.actions.schedules.fires import fire_due
from horae.actions.schedules.forecast import forecast
from horae.actions.schedules.timetable import timetable
from horae.core.schedules.schedule import Schedule
from horae.core.schedules.status import why_silent
from horae.errors import Conflict, InvalidInput, NotFound, VersionConflict
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.refusals import refused

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WEEKEND = ["2030-01-08", "sat", "sun"]  # NOON is Monday, 7 January 2030


@pytest.fixture
def stored(database_url: str, clock: VirtualClock) -> Iterator[World]:
    engine = create_store_engine(database_url)
    store = open_store(engine)
    yield World(store, clock, LoadedDice())
    store.close()


def created(world: World, key: str = "daily", expression: str = "0 9 * * *", **fields: Any) -> Schedule:
    return schedules.create(world, a_schedule(key, expression, **fields))


def test_a_calendar_is_set_changed_and_followed_by_its_schedules(stored: World) -> None:
    made = calendars.set_calendar(stored, "bank", [*WEEKEND, "SAT"], title="Bank", actor="ann", reason="law")
    daily = created(stored, calendar="bank")
    assert (made.version, made.days, made.title) == (1, ("2030-01-08", "sat", "sun"), "Bank")
    assert daily.next_fire_at == NOON + 2 * DAY - 3 * HOUR  # Wednesday at nine: Tuesday is a day of the calendar

    changed = calendars.set_calendar(stored, "bank", ["2030-01-09"], actor="ann")
    daily = schedules.get(stored, "daily")
    assert (changed.version, daily.calendar_days, daily.version) == (2, ("2030-01-09",), 2)
    assert daily.next_fire_at == NOON + DAY - 3 * HOUR
    assert [each.name for each in calendars.list_calendars(stored)] == ["bank"]
    found, users = calendars.get_calendar(stored, "bank")
    assert (found.days, [each.key for each in users]) == (("2030-01-09",), ["daily"])


def test_a_calendar_that_is_used_stays_and_one_that_is_not_goes(stored: World) -> None:
    calendars.set_calendar(stored, "bank", WEEKEND)
    created(stored, calendar="bank")
    with refused(Conflict, "calendar_in_use"):
        calendars.delete_calendar(stored, "bank")

    schedules.change(stored, "daily", {"calendar": None})
    calendars.delete_calendar(stored, "bank", actor="ann")

    assert schedules.get(stored, "daily").calendar_days == ()
    assert calendars.list_calendars(stored) == []
    with refused(NotFound, "calendar_unknown"):
        calendars.delete_calendar(stored, "bank")


def test_only_the_version_that_was_read_is_replaced(world: World) -> None:
    calendars.set_calendar(world, "bank", WEEKEND, version=0)
    with refused(VersionConflict, "calendar_version_old"):
        calendars.set_calendar(world, "bank", ["sat"], version=0)

    assert calendars.set_calendar(world, "bank", ["sat"], version=1).version == 2


@pytest.mark.parametrize("days", [["monday"], [], "sat", [7]])
def test_days_that_cannot_be_read_change_nothing(world: World, days: Any) -> None:
    with pytest.raises(InvalidInput):
        calendars.set_calendar(world, "bank", days)

    assert calendars.list_calendars(world) == []


def test_an_unknown_calendar_is_refused(world: World) -> None:
    with refused(InvalidInput, "calendar_missing"):
        created(world, calendar="bank")
    created(world)
    with refused(InvalidInput, "calendar_missing"):
        schedules.change(world, "daily", {"calendar": "bank"})


def test_each_change_of_a_calendar_is_written_down(world: World) -> None:
    calendars.set_calendar(world, "bank", ["sat"], actor="ann", reason="law")
    calendars.set_calendar(world, "bank", ["sun"], actor="bob")
    calendars.delete_calendar(world, "bank", actor="cid")

    entries = [entry for _, entry in find_entries(world, object_type="calendar")]
    assert [(each.actor, each.verb) for each in entries] == [("cid", "delete"), ("bob", "put"), ("ann", "put")]
    assert (entries[1].before["days"], entries[1].after["days"]) == (["sat"], ["sun"])


def test_what_is_previewed_and_forecast_is_what_fires(world: World, clock: VirtualClock) -> None:
    calendars.set_calendar(world, "bank", WEEKEND)
    made = created(world, "moved", "0 9 * * *", calendar="bank", calendar_rule="move")
    night = created(world, "night", "*/30 * * * *", quiet_hours="18:00-08:00")
    expected = schedules.preview(world, made, 3)
    assert expected == [NOON + days * DAY - 3 * HOUR for days in (2, 3, 4)]
    assert [at for at, each in forecast(world, 48, limit=1000).fires if each.key == "moved"] == expected[:1]
    assert NOON + 20 * HOUR in schedules.preview(world, night, 20)
    hours = timetable(world, days=1, past=0).hours
    assert sum(each.fires for each in hours.values()) == 11 + 1 + 8  # until 17:30, at 8:00, until noon

    fired: list[Any] = []
    while clock.now() < NOON + 4 * DAY:
        clock.advance(HOUR)
        fired += [
            fire.fire_at for firing, _ in fire_due(world) for fire in firing.fires if firing.schedule.key == "moved"
        ]
    assert fired == expected


def test_why_names_the_window_that_keeps_the_next_fire(world: World) -> None:
    calendars.set_calendar(world, "bank", WEEKEND)
    by_calendar = created(world, "a", calendar="bank")
    by_quiet = created(world, "b", "0 * * * *", quiet_hours="12:30-15:00")
    free = created(world, "c", "0 16 * * *", quiet_hours="12:30-15:00", calendar="bank")

    assert [each.text for each in why_silent(by_calendar, NOON)] == [
        "its next time, 2030-01-08T09:00:00Z, is kept back by the calendar bank; it fires at 2030-01-09T09:00:00Z"
    ]
    assert [each.code for each in why_silent(by_quiet, NOON)] == ["quiet"]
    assert why_silent(free, NOON) == ()


def test_fires_that_came_while_no_worker_ran_are_those_of_the_windows(world: World, clock: VirtualClock) -> None:
    created(world, "night", "*/30 * * * *", quiet_hours="18:00-08:00")
    clock.advance(DAY)

    (firing,) = [firing for firing, _ in fire_due(world)]
    assert sum(fire.count for fire in firing.fires) == 11 + 1 + 8
