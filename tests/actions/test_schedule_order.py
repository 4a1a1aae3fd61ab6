"""Schedules by when they are due next, and by a text in their names."""

from datetime import timedelta

from horae.actions.schedules import schedules
from horae.core.schedules.schedule import Schedule
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.testing.clock import VirtualClock


def make(world: World) -> None:
    for schedule in (
        Schedule("daily", "report", "cron", "0 3 * * *", title="Every Night"),
        Schedule("often", "ping", "every", "60"),
        Schedule("rare", "report", "cron", "0 0 29 2 *"),
        Schedule("off", "ping", "every", "60"),
        Schedule("late", "ping", "every", "3600"),
    ):
        schedules.create(world, schedule)
    schedules.pause(world, "off")


def test_schedules_are_listed_by_when_they_are_due_next(world: World, clock: VirtualClock) -> None:
    make(world)
    found: list[str] = []
    after = None
    while page := schedules.find_by_next(world, ScheduleFilter(), limit=2, after=after):
        found += [each.key for each in page]
        after = (page[-1].next_due_at, page[-1].number)
    assert found == ["often", "late", "daily", "rare", "off"]
    clock.advance(timedelta(seconds=1))


def test_a_text_is_looked_for_in_key_title_and_handler(world: World) -> None:
    make(world)

    def keys(text: str) -> list[str]:
        return [each.key for each in schedules.find(world, ScheduleFilter(text=text))]

    assert keys("night") == ["daily"]
    assert keys("PORT") == ["daily", "rare"]
    assert keys("of") == ["off", "often"]
    assert keys("nothing like it") == []
