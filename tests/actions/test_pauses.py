"""Pauses that end by themselves, of schedules and of queues."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from horae.actions.jobs import claims, jobs, queues
from horae.actions.jobs.machinery import serve_due
from horae.actions.jobs.quiet_queues import quiet_queue
from horae.actions.jobs.reasons import why
from horae.actions.jobs.requests import Request
from horae.actions.schedules import groups, schedules
from horae.core.schedules.status import schedule_status, why_silent
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock

HOUR = timedelta(hours=1)


def serve(world: World, clock: VirtualClock, at: datetime) -> int:
    clock.advance(at - clock.now())
    return serve_due(world, "keeper")


def test_a_schedule_goes_on_when_its_pause_ends(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule("hourly", "30 * * * *"))
    paused = schedules.pause(world, "hourly", until=NOON + 2 * HOUR, actor="ann", reason="migration")
    assert (schedule_status(paused), paused.next_fire_at, paused.paused_until) == ("paused", None, NOON + 2 * HOUR)
    assert [each.text for each in why_silent(paused, NOON)][1] == "the pause ends by itself at 2030-01-07T14:00:00Z"

    assert serve(world, clock, NOON + 2 * HOUR - timedelta(seconds=1)) == 0
    assert serve(world, clock, NOON + 2 * HOUR) == 1

    after = schedules.get(world, "hourly")
    assert (schedule_status(after), after.next_fire_at, after.paused_until) == ("active", NOON + 2.5 * HOUR, None)
    entry = schedules.versions(world, "hourly")[0]
    assert (entry.verb, entry.actor) == ("resume", "system/pause")


def test_a_queue_goes_on_when_its_pause_ends(world: World, clock: VirtualClock) -> None:
    paused = queues.pause_queue(world, "mail", until=NOON + HOUR, actor="ann")
    assert (paused.paused_at, paused.paused_until) == (NOON, NOON + HOUR)

    serve(world, clock, NOON + HOUR)

    found = queues.get_queue(world, "mail")
    assert (found.paused_at, found.paused_by, found.paused_until) == (None, None, None)


@pytest.mark.parametrize("again", [None, NOON + 5 * HOUR])
def test_a_later_pause_is_not_ended_by_an_earlier_one(
    world: World, clock: VirtualClock, again: datetime | None
) -> None:
    schedules.create(world, a_schedule("hourly", "30 * * * *"))
    for pause in (lambda **terms: schedules.pause(world, "hourly", **terms),
                  lambda **terms: queues.pause_queue(world, "mail", **terms)):  # fmt: skip
        pause(until=NOON + HOUR)
        pause(until=again)

    serve(world, clock, NOON + HOUR)

    assert schedules.get(world, "hourly").paused_until == again
    assert schedules.get(world, "hourly").paused_at is not None
    assert queues.get_queue(world, "mail").paused_at is not None


def test_what_was_resumed_or_deleted_before_is_left_alone(world: World, clock: VirtualClock) -> None:
    schedules.create(world, a_schedule("hourly", "30 * * * *"))
    schedules.create(world, a_schedule("gone", "30 * * * *"))
    for key in ("hourly", "gone"):
        schedules.pause(world, key, until=NOON + HOUR)
    resumed = schedules.resume(world, "hourly")
    schedules.delete(world, "gone")

    assert serve(world, clock, NOON + HOUR) == 2
    assert schedules.get(world, "hourly").version == resumed.version


def test_a_group_is_paused_until_an_instant(world: World, clock: VirtualClock) -> None:
    for key in ("a", "b"):
        schedules.create(world, a_schedule(key, "30 * * * *", group="night"))
    groups.pause_group(world, "night", until=NOON + HOUR)
    assert serve(world, clock, NOON + HOUR) == 2

    assert [schedules.get(world, key).paused_at for key in ("a", "b")] == [None, None]


@pytest.mark.parametrize("until", [NOON, NOON - HOUR, "tomorrow", NOON.replace(tzinfo=None)])
def test_an_end_that_cannot_be_is_refused_and_nothing_is_paused(world: World, until: Any) -> None:
    schedules.create(world, a_schedule("hourly", "30 * * * *"))
    with pytest.raises(InvalidInput):
        schedules.pause(world, "hourly", until=until)
    with pytest.raises(InvalidInput):
        queues.pause_queue(world, "mail", until=until)

    assert schedules.get(world, "hourly").paused_at is None


# -- quiet hours of a queue ----------------------------------------------------------------------------------------


def test_a_queue_is_paused_in_its_quiet_hours_and_open_outside(world: World, clock: VirtualClock) -> None:
    quiet_queue(world, "mail", "13:00-14:00", "Europe/Berlin", actor="ann", reason="lunch")  # 12:00 to 13:00 in UTC
    paused = queues.get_queue(world, "mail")
    assert (paused.paused_by, paused.paused_until) == ("system/quiet", NOON + HOUR)
    assert paused.pause_reason == "quiet hours 13:00-14:00 (Europe/Berlin)"

    assert serve(world, clock, NOON + HOUR) == 1
    assert queues.get_queue(world, "mail").paused_at is None
    assert serve(world, clock, NOON + 23 * HOUR) == 0
    assert serve(world, clock, NOON + 24 * HOUR) == 1
    assert queues.get_queue(world, "mail").paused_until == NOON + 25 * HOUR


def test_quiet_hours_leave_a_persons_pause_alone(world: World, clock: VirtualClock) -> None:
    quiet_queue(world, "mail", "13:00-14:00")
    queues.pause_queue(world, "mail", actor="ann")
    for hours in (1, 2):
        serve(world, clock, NOON + hours * HOUR)

    assert queues.get_queue(world, "mail").paused_by == "ann"


def test_quiet_hours_hold_from_the_moment_at_which_they_are_set(world: World) -> None:
    """A worker that is faster than Horae's own job started what was due."""
    jobs.enqueue(world, Request("send", queue="mail"))
    quiet_queue(world, "mail", "11:00-14:00")
    assert claims.claim(world, "mail", 1, worker_id="w", lease=HOUR) == []

    quiet_queue(world, "mail", "11:00-15:00")
    assert claims.claim(world, "mail", 1, worker_id="w", lease=HOUR) == []


def test_a_pause_that_ends_in_quiet_hours_leaves_the_queue_to_them(world: World, clock: VirtualClock) -> None:
    quiet_queue(world, "mail", "13:00-16:00")
    queues.pause_queue(world, "mail", until=NOON + 2 * HOUR, actor="ann")
    serve(world, clock, NOON + HOUR)

    serve(world, clock, NOON + 2 * HOUR)
    found = queues.get_queue(world, "mail")
    assert (found.paused_by, found.paused_until) == ("system/quiet", NOON + 4 * HOUR)

    serve(world, clock, NOON + 4 * HOUR)
    assert queues.get_queue(world, "mail").paused_at is None


def test_quiet_hours_that_are_lifted_or_changed_open_the_queue_and_end_their_job(
    world: World, clock: VirtualClock
) -> None:
    quiet_queue(world, "mail", "12:00-14:00")
    assert queues.get_queue(world, "mail").paused_at == NOON

    changed = quiet_queue(world, "mail", "20:00-21:00")
    assert (changed.paused_at, changed.quiet_hours) == (None, "20:00-21:00")
    assert serve(world, clock, NOON + 2 * HOUR) == 1  # the job of the old hours ends
    assert serve(world, clock, NOON + 8 * HOUR) == 1
    assert queues.get_queue(world, "mail").paused_until == NOON + 9 * HOUR

    lifted = quiet_queue(world, "mail", None)
    assert (lifted.paused_at, lifted.quiet_hours) == (None, None)
    assert serve(world, clock, NOON + 9 * HOUR) == 1
    assert serve(world, clock, NOON + 40 * HOUR) == 0


@pytest.mark.parametrize(("hours", "zone"), [("late", "UTC"), ("22:00-07:00", "Mars/Olympus"), ("00:00-24:00", "UTC")])
def test_hours_that_cannot_be_kept_are_refused(world: World, hours: str, zone: str) -> None:
    with pytest.raises(InvalidInput):
        quiet_queue(world, "mail", hours, zone)

    assert queues.list_queues(world) == []


def claim_one(world: World) -> list[str]:
    return [job.id for job in claims.claim(world, "mail", 1, worker_id="w", lease=HOUR)]


def test_a_claim_heeds_quiet_hours_that_began_while_no_worker_lived(world: World, clock: VirtualClock) -> None:
    """The first worker that started ran what was due before Horae's own job had paused the queue."""
    quiet_queue(world, "mail", "13:00-14:00")
    made = jobs.enqueue(world, Request("send", queue="mail"))
    clock.advance(HOUR)
    assert claim_one(world) == []

    serve(world, clock, NOON + HOUR)
    assert claim_one(world) == []
    clock.advance(HOUR)
    assert claim_one(world) == []  # it stays paused until the end was acted on
    serve(world, clock, NOON + 2 * HOUR)
    assert claim_one(world) == [made.id]


def test_a_queue_whose_quiet_hours_came_and_went_unseen_is_open_once_a_process_lives(
    world: World, clock: VirtualClock
) -> None:
    quiet_queue(world, "mail", "13:00-14:00")
    made = jobs.enqueue(world, Request("send", queue="mail"))
    serve(world, clock, NOON + 5 * HOUR)

    assert queues.get_queue(world, "mail").quiet_at == NOON + 25 * HOUR
    assert claim_one(world) == [made.id]


def test_why_names_quiet_hours_that_no_process_has_acted_on(world: World, clock: VirtualClock) -> None:
    quiet_queue(world, "mail", "13:00-14:00")
    made = jobs.enqueue(world, Request("send", queue="mail"))
    clock.advance(HOUR)

    first = why(world, jobs.get(world, made.id))[0]
    assert (first.code, first.facts["by"]) == ("queue_paused", "system/quiet")
    assert first.facts["because"] == "quiet hours 13:00-14:00 (UTC)"


def test_a_queue_resumed_before_its_quiet_hours_were_acted_on_stays_open(world: World, clock: VirtualClock) -> None:
    quiet_queue(world, "mail", "13:00-14:00")
    made = jobs.enqueue(world, Request("send", queue="mail"))
    clock.advance(HOUR)
    queues.resume_queue(world, "mail", actor="ann")
    assert claim_one(world) == [made.id]

    serve(world, clock, NOON + HOUR)
    assert queues.get_queue(world, "mail").paused_at is None
    serve(world, clock, NOON + 2 * HOUR)
    serve(world, clock, NOON + 25 * HOUR)
    assert queues.get_queue(world, "mail").paused_by == "system/quiet"
