"""Every operation of calendars, through all four senders."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pytest

from horae.api.schedules.calendars import Calendar, CalendarDetail
from horae.errors import Conflict, Forbidden, InvalidInput, NotFound, VersionConflict
from tests.api.conftest import Sent
from tests.support.refusals import refused

numbers = count()


@pytest.fixture
def name() -> str:
    return f"calendar {next(numbers)}".replace(" ", "-")


def test_a_calendar_is_set_shown_listed_and_deleted(rooms: Sent, name: str) -> None:
    made = rooms.house.calendars.set(name, ["sun", "2030-12-25", "12-31"], title="Closed", reason="law")
    changed = rooms.house.calendars.set(name, ["sat"], version=1)
    found = rooms.house.calendars.get(name)
    listed = rooms.house.calendars.list()
    rooms.house.calendars.delete(name)

    assert isinstance(made, Calendar)
    assert (made.days, made.title, made.version) == (("12-31", "2030-12-25", "sun"), "Closed", 1)
    assert isinstance(found, CalendarDetail)
    assert (found.days, found.version, found.schedules) == (("sat",), 2, ())
    assert changed in listed
    with refused(NotFound, "calendar_unknown"):
        rooms.house.calendars.get(name)


def test_a_schedule_heeds_its_calendar_and_its_quiet_hours(rooms: Sent, name: str) -> None:
    rooms.house.calendars.set(name, ["sat", "sun"])
    terms = {"calendar": name, "calendar_rule": "move", "quiet_hours": "18:00-08:00", "zone": "Asia/Shanghai"}
    made = rooms.house.schedules.create(f"s-{name}", handler="h", cron="0 6 * * 6", **terms)
    ahead = rooms.house.schedules.preview(made.key, count=2).fires
    used = rooms.house.calendars.get(name).schedules
    with refused(Conflict, "calendar_in_use"):
        rooms.house.calendars.delete(name)
    plain = rooms.house.schedules.change(made.key, calendar=None, quiet_hours=None)

    assert (made.calendar, made.calendar_rule, made.quiet_hours) == (name, "move", "18:00-08:00")
    assert [f"{fire:%a %H:%M}" for fire in ahead] == ["Mon 00:00", "Mon 00:00"]  # eight in the morning in Shanghai
    assert used == (made.key,)
    assert (plain.calendar, plain.quiet_hours) == (None, None)


def test_what_cannot_be_kept_is_refused_by_every_door(rooms: Sent, name: str) -> None:
    with refused(InvalidInput, "calendar_day_unreadable"):
        rooms.house.calendars.set(name, ["someday"])
    with refused(InvalidInput, "calendar_missing"):
        rooms.house.schedules.create(f"s-{name}", handler="h", cron="0 6 * * 6", calendar=name)
    with refused(InvalidInput, "quiet_unreadable"):
        rooms.house.schedules.create(f"s-{name}", handler="h", cron="0 6 * * 6", quiet_hours="late")
    with refused(VersionConflict, "calendar_version_old"):
        rooms.house.calendars.set(name, ["sat"], version=7)
    with refused(Forbidden, "scope_missing"):
        rooms.alice.calendars.set(name, ["sat"])


def test_a_tenant_sees_calendars_and_none_of_the_schedules_of_others(rooms: Sent, name: str) -> None:
    rooms.house.calendars.set(name, ["sat"])
    rooms.house.schedules.create(f"s-{name}", handler="h", cron="0 6 * * 6", calendar=name)

    assert rooms.alice.calendars.get(name).schedules == ()
    assert name in [each.name for each in rooms.alice.calendars.list()]


def test_pauses_end_by_themselves_and_queues_have_quiet_hours(rooms: Sent, name: str) -> None:
    until = datetime(2099, 1, 1, tzinfo=UTC)
    rooms.house.schedules.create(f"s-{name}", handler="h", cron="0 6 * * 6", group=name)
    one = rooms.house.schedules.pause(f"s-{name}", until=until)
    rooms.house.schedules.resume(f"s-{name}")
    group = rooms.house.schedules.pause_group(name, until=until)
    queue = rooms.house.queues.pause(name, until=until)
    quiet = rooms.house.queues.quiet(name, "22:00-07:00", zone="Asia/Shanghai", reason="night")
    lifted = rooms.house.queues.quiet(name, None)

    assert (one.paused_until, one.status) == (until, "paused")
    assert group.changed == (f"s-{name}",)
    assert rooms.house.schedules.get(f"s-{name}").paused_until == until
    assert (queue.paused_until, quiet.paused_until) == (until, until)
    assert (quiet.quiet_hours, quiet.quiet_zone, lifted.quiet_hours) == ("22:00-07:00", "Asia/Shanghai", None)
    with refused(InvalidInput, "pause_end_passed"):
        rooms.house.queues.pause(name, until=datetime(2000, 1, 1, tzinfo=UTC))
    with refused(InvalidInput, "quiet_unreadable"):
        rooms.house.queues.quiet(name, "night")
