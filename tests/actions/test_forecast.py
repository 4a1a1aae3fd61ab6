"""What will fire when."""

from datetime import UTC, datetime, timedelta

import pytest

from horae.actions.schedules import fires, schedules, timetable
from horae.actions.schedules.forecast import forecast
from horae.core.jobs.retry import Retry
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

HOUR = timedelta(hours=1)


def test_fires_of_all_schedules_come_in_order(world: World) -> None:
    schedules.create(world, a_schedule("hourly", "0 * * * *"))
    schedules.create(world, a_schedule("half", "30 * * * *", owner="alice"))

    answer = forecast(world, 2)

    assert [(at - NOON, each.key) for at, each in answer.fires] == [
        (HOUR / 2, "half"),
        (HOUR, "hourly"),
        (1.5 * HOUR, "half"),
        (2 * HOUR, "hourly"),
    ]
    assert (answer.complete, answer.until, answer.total) == (True, NOON + 2 * HOUR, 4)


def test_what_is_forecast_is_what_fires(world: World, clock: VirtualClock) -> None:
    """A week with a change of clocks in it, told on its first day and then lived through."""
    clock.move_to(datetime(2030, 3, 28, 12, tzinfo=UTC))
    for key, cron, zone in (
        ("gap", "30 2 * * *", "Europe/Berlin"),
        ("hourly", "7 * * * *", "America/New_York"),
        ("weekdays", "0 9 * * 1-5", "Asia/Shanghai"),
        ("both", "0 12 */3 * 1", "UTC"),
    ):
        schedules.create(world, a_schedule(key, cron, zone=zone))
    told = [(at, each.key) for at, each in forecast(world, 7 * 24, limit=1000).fires]

    happened = []
    for at, _key in told:
        clock.move_to(max(clock.now(), at))
        for firing, _ in fires.fire_due(world):
            happened += [(each.fire_at, firing.schedule.key) for each in firing.fires]

    assert len(told) > 150
    assert sorted(happened) == sorted(told)


def test_minutes_in_which_many_fire_are_told(world: World) -> None:
    for number in range(3):
        schedules.create(world, a_schedule(f"job{number}", "0 * * * *"))
    schedules.create(world, a_schedule("alone", "30 * * * *"))

    assert forecast(world, 1).piles == ((NOON + HOUR, 3),)


def test_what_is_off_paused_or_spent_does_not_fire(world: World) -> None:
    schedules.create(world, a_schedule("off", enabled=False))
    schedules.create(world, a_schedule("paused"))
    schedules.pause(world, "paused")
    schedules.create(world, a_schedule("twice", max_fires=2))

    assert [each.key for _, each in forecast(world, 1).fires] == ["twice", "twice"]


def test_what_is_overdue_is_told_once_and_then_what_is_ahead(world: World, clock: VirtualClock) -> None:
    """The fires of a downtime are behind, whatever becomes of them."""
    schedules.create(world, a_schedule("minutely"))
    clock.advance(timedelta(days=3, seconds=30))

    answer = forecast(world, 1)

    ahead = clock.now() + timedelta(seconds=30)
    assert [at for at, _ in answer.fires[:3]] == [NOON + timedelta(minutes=1), ahead, ahead + timedelta(minutes=1)]
    assert answer.total == 61


def test_a_tenant_sees_its_own(world: World) -> None:
    schedules.create(world, a_schedule())
    schedules.create(world, a_schedule("mine", "0 * * * *", owner="alice"))

    assert {each.key for _, each in forecast(world, 1, owner="alice").fires} == {"mine"}


def test_a_long_list_is_cut_and_says_where(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horae.actions.schedules.forecast.MOST_FIRES", 10)
    schedules.create(world, a_schedule())

    answer = forecast(world, 1, limit=5)

    assert (len(answer.fires), answer.total, answer.complete) == (5, 10, False)
    assert answer.until == NOON + timedelta(minutes=11)


def test_every_node_s_own_timer_is_told_by_its_rule(world: World) -> None:
    schedules.create(world, a_schedule("local", "0 * * * *", mode="ALL_NODES", retry=Retry.none()))

    assert [each.key for _, each in forecast(world, 1).fires] == ["local"]


@pytest.mark.parametrize("hours", [0, -1, 10_000, float("nan")])
def test_a_span_nobody_can_use_is_refused(world: World, hours: float) -> None:
    with pytest.raises(InvalidInput):
        forecast(world, hours)


def test_a_look_back_at_too_many_records_says_how_far_it_went(
    world: World, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules.create(world, a_schedule("hourly", "5 * * * *", overlap="allow"))
    for minutes in (5, 60, 60):
        clock.advance(timedelta(minutes=minutes))
        fires.fire_due(world)
    monkeypatch.setattr(timetable, "MOST_RECORDS", 2)

    seen = timetable.timetable(world, days=1, past=1)

    assert (seen.past_complete, seen.since) == (False, clock.now() - timedelta(hours=1))
    assert sum(hour.ran for hour in seen.hours.values()) == 2
