"""Switching schedules on and off, for good or until a start: C-16, S3-42."""

from datetime import timedelta

import pytest

from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.actions.schedules.declared import Plan, bring_in_line
from horae.actions.schedules.toggles import switch
from horae.core.schedules.schedule import Schedule
from horae.core.schedules.status import why_silent
from horae.errors import NotFound
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import VirtualClock

MINUTE = timedelta(minutes=1)


def plan_of(app: str, *declared: Schedule) -> Plan:
    return Plan(app, tuple(declared))


def toggled_off(world: World, *declared: Schedule, app: str = "shop") -> None:
    bring_in_line(world, plan_of(app, *declared))
    for schedule in declared:
        switch(world, schedule.key, False, ephemeral=True)


def test_switching_off_for_good_survives_every_start(world: World) -> None:
    """C-16: durable is the default."""
    bring_in_line(world, plan_of("shop", a_schedule()))

    off = switch(world, "minutely", False, actor="ann", reason="repairs")
    bring_in_line(world, plan_of("shop", a_schedule()), starts=True)

    assert (off.enabled, off.toggled, off.next_fire_at, off.sources["enabled"]) == (False, None, None, "api")
    assert schedules.get(world, "minutely").is_on is False
    newest = schedules.versions(world, "minutely")[0]
    assert (newest.verb, newest.actor, newest.reason) == ("disable", "ann", "repairs")


def test_a_toggle_wins_over_what_is_stored_and_keeps_it(world: World, clock: VirtualClock) -> None:
    toggled_off(world, a_schedule())
    clock.advance(MINUTE)

    now = schedules.get(world, "minutely")
    assert (now.enabled, now.toggled, now.is_on, now.next_fire_at) == (True, False, False, None)
    assert firing.fire_due(world) == []


def test_a_toggle_can_let_a_disabled_schedule_fire(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule(enabled=False))

    switch(world, "minutely", True, ephemeral=True)
    clock.advance(MINUTE)

    assert len(firing.fire_due(world)) == 1


def test_a_start_of_its_application_forgets_the_toggle(world: World, clock: VirtualClock) -> None:
    """S3-42: back to what is stored, and firing again from now on."""
    toggled_off(world, a_schedule())

    bring_in_line(world, plan_of("shop", a_schedule()), starts=True)

    now = schedules.get(world, "minutely")
    assert (now.toggled, now.is_on) == (None, True)
    clock.advance(MINUTE)
    assert len(firing.fire_due(world)) == 1


def test_reading_the_file_again_is_no_start(world: World) -> None:
    toggled_off(world, a_schedule())

    bring_in_line(world, plan_of("shop", a_schedule()))

    assert schedules.get(world, "minutely").toggled is False


def test_a_start_of_another_application_forgets_nothing(world: World) -> None:
    toggled_off(world, a_schedule())

    bring_in_line(world, plan_of("billing"), starts=True)

    assert schedules.get(world, "minutely").toggled is False


def test_what_no_application_declares_is_forgotten_by_any_start(world: World) -> None:
    schedules.create(world, a_schedule(owner="alice"))
    switch(world, "minutely", False, ephemeral=True, owner="alice")

    bring_in_line(world, plan_of("billing"), starts=True)

    assert schedules.get(world, "minutely", owner="alice").toggled is None


def test_for_good_lifts_an_earlier_toggle(world: World) -> None:
    toggled_off(world, a_schedule())

    on = switch(world, "minutely", True)

    assert (on.enabled, on.toggled, on.is_on) == (True, None, True)


def test_the_same_again_changes_nothing(world: World) -> None:
    schedules.create(world, a_schedule())

    first = switch(world, "minutely", True)

    assert first.version == 1


def test_an_unknown_schedule_cannot_be_switched(world: World) -> None:
    """C-27."""
    with pytest.raises(NotFound):
        switch(world, "nobody", True)


def test_a_list_of_what_is_on_counts_toggles(world: World) -> None:
    toggled_off(world, a_schedule())

    assert schedules.find(world, ScheduleFilter(enabled=True)) == []
    assert [each.key for each in schedules.find(world, ScheduleFilter(toggled=True))] == ["minutely"]


def test_a_change_of_enabled_is_for_good_too(world: World) -> None:
    toggled_off(world, a_schedule())

    changed = schedules.change(world, "minutely", {"enabled": True})

    assert (changed.toggled, changed.is_on) == (None, True)


def test_the_audit_tells_a_toggle_and_a_list_says_why_nothing_fires(world: World, clock: VirtualClock) -> None:
    toggled_off(world, a_schedule())

    entry = schedules.versions(world, "minutely")[0]
    assert (entry.verb, entry.before["toggled"], entry.after["toggled"]) == ("toggle", None, False)
    [reason] = why_silent(schedules.get(world, "minutely"), clock.now())
    assert "until a worker" in reason.text
