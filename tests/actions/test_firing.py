"""Firing on time, by hand, after the fact, and after a change of the zone database."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from horae.actions.jobs import claims, endings, jobs
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.core.jobs.job import Job, Outcome
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.errors import InvalidInput, InvalidPayload, NotFound
from horae.ports.store import Tx
from horae.ports.world import World
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, VirtualClock
from tests.support.refusals import refused

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)


def created(world: World, key: str = "minutely", expression: str = "* * * * *", **fields: Any) -> Schedule:
    return schedules.create(world, a_schedule(key, expression, **fields))


def answer(world: World, key: str = "minutely") -> list[tuple[str, str | None, str]]:
    return [(fire.verdict, fire.reason, fire.kind) for fire, _ in reversed(schedules.history(world, key))]


def pull(world: World) -> list[Job]:
    return claims.pull(world, worker_id="w")


# -- by hand: C-23, S3-30, S3-51 ---------------------------------------------------------------------------------


def test_a_trigger_runs_now_with_its_own_parameters_and_leaves_the_rhythm(world: World) -> None:
    before = created(world, payload={"a": 1, "b": 2}, retry=Retry.fixed(5, attempts=9))

    done = firing.trigger(world, "minutely", {"b": 3, "c": 4}, actor="ann", reason="now please")

    assert done.job_id is not None
    job = jobs.get(world, done.job_id)
    assert (job.payload, job.run_at, job.max_attempts) == ({"a": 1, "b": 3, "c": 4}, NOON, 1)
    after = schedules.get(world, "minutely")
    assert (after.next_fire_at, after.fire_count, after.version) == (before.next_fire_at, 0, 1)
    assert answer(world) == [("ran", None, "manual")]
    entry = schedules.versions(world, "minutely")[0]
    assert (entry.verb, entry.actor, entry.reason, entry.after["ran"]) == ("trigger", "ann", "now please", True)


@pytest.mark.parametrize("fields", [{"enabled": False}, {"max_fires": 1, "fire_count": 1}])
def test_a_trigger_ignores_whether_the_schedule_is_switched_on(world: World, fields: dict[str, Any]) -> None:
    created(world, **fields)

    assert firing.trigger(world, "minutely").ran


def test_a_trigger_of_a_paused_schedule_runs_and_leaves_it_paused(world: World) -> None:
    created(world)
    schedules.pause(world, "minutely")

    assert firing.trigger(world, "minutely").ran
    assert schedules.get(world, "minutely").paused_at == NOON


def test_a_trigger_that_finds_another_running_is_refused_on_record(world: World) -> None:
    created(world)
    firing.trigger(world, "minutely")

    refused = firing.trigger(world, "minutely")

    assert (refused.ran, refused.fire.reason) == (False, "running")
    assert sorted(answer(world)) == [("ran", None, "manual"), ("skipped", "running", "manual")]


def test_a_trigger_queues_behind_a_running_one_where_one_may_wait(world: World) -> None:
    created(world, overlap="queue_one")
    firing.trigger(world, "minutely")
    [running] = pull(world)

    ran = [firing.trigger(world, "minutely").ran for _ in range(2)]

    assert (ran, pull(world)) == ([True, False], [])
    endings.ack(world, running.id, running.token)
    assert len(pull(world)) == 1


def test_a_triggered_job_that_fails_is_not_tried_again(world: World) -> None:
    created(world, retry=Retry.fixed(5, attempts=9))
    firing.trigger(world, "minutely")
    [job] = pull(world)

    assert endings.fail(world, job.id, job.token, "Boom").state == "dead"


def test_a_trigger_of_nothing_is_refused(world: World) -> None:
    with pytest.raises(NotFound):
        firing.trigger(world, "nobody")


def test_parameters_that_cannot_be_stored_leave_nothing_behind(world: World) -> None:
    created(world)

    with pytest.raises(InvalidPayload):
        firing.trigger(world, "minutely", {"x": object()})

    assert (answer(world), jobs.find(world)) == ([], [])


# -- after the fact ----------------------------------------------------------------------------------------------


def missed(world: World, clock: VirtualClock, **fields: Any) -> None:
    """An hourly schedule whose fires at 13, 14 and 15 o'clock were skipped, and whose 16 o'clock one ran."""
    created(world, "hourly", "0 * * * *", misfire="skip", **fields)
    clock.advance(4 * HOUR)
    firing.fire_due(world)


def test_a_backfill_first_tells_what_it_would_do(world: World, clock: VirtualClock) -> None:
    missed(world, clock)

    would = firing.backfill(world, "hourly", NOON + TICK, NOON + DAY)

    assert (would.fires, would.present, would.job_ids) == (tuple(NOON + n * HOUR for n in (1, 2, 3)), 1, ())
    assert len(jobs.find(world)) == 1


def test_a_backfill_makes_up_only_for_what_is_missing(world: World, clock: VirtualClock) -> None:
    missed(world, clock, overlap="allow", payload={"a": 1})

    done = firing.backfill(
        world, "hourly", NOON + TICK, NOON + DAY, dry_run=False, spread=30 * MINUTE, actor="ann", reason="gap"
    )

    made = [jobs.get(world, job_id) for job_id in done.job_ids]
    assert [job.fire_at for job in made] == [NOON + n * HOUR for n in (1, 2, 3)]
    assert [job.run_at - clock.now() for job in made] == [0 * MINUTE, 10 * MINUTE, 20 * MINUTE]
    assert [kind for _, _, kind in answer(world, "hourly")] == [
        "schedule",
        "backfill",
        "backfill",
        "backfill",
        "schedule",
    ]
    entry = schedules.versions(world, "hourly")[0]
    assert (entry.verb, entry.actor, entry.after["fires"]) == ("backfill", "ann", 3)
    again = firing.backfill(world, "hourly", NOON + TICK, NOON + DAY, dry_run=False)
    assert (again.fires, again.present, again.job_ids) == ((), 4, ())


def test_a_backfill_does_not_run_what_is_still_to_come(world: World, clock: VirtualClock) -> None:
    """I7: those fires will come by themselves, and would run twice."""
    created(world, "hourly", "0 * * * *")
    clock.advance(90 * MINUTE)  # 13:00 has come, and nobody has decided on it yet

    assert firing.backfill(world, "hourly", NOON + TICK, NOON + 9 * DAY, dry_run=False).fires == ()
    firing.fire_due(world)
    assert firing.backfill(world, "hourly", NOON + TICK, NOON + 9 * DAY, dry_run=False).fires == ()


def test_a_backfill_stays_within_the_bounds_of_the_schedule(world: World, clock: VirtualClock) -> None:
    created(world, "hourly", "0 * * * *", starts_at=NOON + 2 * HOUR, ends_at=NOON + 4 * HOUR, misfire="skip")
    clock.advance(DAY)
    firing.fire_due(world)

    would = firing.backfill(world, "hourly", NOON - DAY, NOON + 9 * DAY)

    assert would.fires == (NOON + 2 * HOUR, NOON + 3 * HOUR, NOON + 4 * HOUR)


def test_backfilled_jobs_do_not_overlap_where_the_schedule_forbids_it(world: World, clock: VirtualClock) -> None:
    missed(world, clock)
    [job] = pull(world)
    endings.ack(world, job.id, job.token)
    firing.backfill(world, "hourly", NOON + TICK, NOON + DAY, dry_run=False)

    assert len(pull(world)) == 1


def test_a_backfill_is_bounded(world: World, clock: VirtualClock) -> None:
    created(world, "secondly", "* * * * * *", misfire="skip")
    clock.advance(DAY)
    firing.fire_due(world)

    with refused(InvalidInput, "backfill_too_many", most=10000):
        firing.backfill(world, "secondly", NOON, NOON + DAY)


def test_a_backfill_does_not_walk_through_years_to_find_what_is_missing(world: World, clock: VirtualClock) -> None:
    """However many of them ran: looking through them takes a lock on the schedule for as long."""
    created(world, "secondly", "* * * * * *", misfire="skip")
    clock.advance(2000 * DAY)
    firing.fire_due(world)

    with refused(InvalidInput, "backfill_too_wide", count=172799999):
        firing.backfill(world, "secondly", NOON + timedelta(seconds=2), NOON + 2000 * DAY)


def test_a_backfill_that_ends_before_it_begins_is_refused(world: World, clock: VirtualClock) -> None:
    missed(world, clock)

    with refused(InvalidInput, "end_before_start"):
        firing.backfill(world, "hourly", NOON + DAY, NOON)
    assert firing.backfill(world, "hourly", NOON + HOUR, NOON + HOUR).fires == (NOON + HOUR,)


@pytest.mark.parametrize(
    ("fields", "times"),
    [
        ({"kind": "every", "expression": "60", "anchor": "finish"}, (NOON, NOON + HOUR)),
        ({}, (NOON.replace(tzinfo=None), NOON + HOUR)),
    ],
    ids=["no times of its own", "naive"],
)
def test_a_backfill_that_cannot_be_told_is_refused(
    world: World, fields: dict[str, Any], times: tuple[datetime, datetime]
) -> None:
    created(world, "s", **({"expression": "* * * * *"} | fields))

    with pytest.raises(InvalidInput):
        firing.backfill(world, "s", *times)


def test_a_follower_has_nothing_to_make_up_for(world: World) -> None:
    created(world, "leader")
    created(world, "follower", "", kind="after", after=("leader",))

    with refused(InvalidInput, "no_times_to_backfill"):
        firing.backfill(world, "follower", NOON, NOON + DAY)


# -- a newer zone database: fault 33 -----------------------------------------------------------------------------


def stored_as(world: World, key: str, moment: datetime) -> None:
    """Store a next fire as an older zone database would have computed it."""

    def write(tx: Tx) -> None:
        schedule = tx.schedules.get(key, "system", lock=True)
        assert schedule is not None
        tx.schedules.put(replace(schedule, next_fire_at=moment, next_due_at=moment), expected_version=schedule.version)

    world.store.transact(write)


def test_a_newer_zone_database_moves_future_fires_and_says_so_once(world: World, clock: VirtualClock) -> None:
    old, new = replace(world, tzdata="2025b"), replace(world, tzdata="2026f")
    created(old, "vancouver", "0 9 * * *", zone="America/Vancouver")
    created(old, "paris", "0 9 * * *", zone="Europe/Paris")
    right = schedules.get(old, "vancouver").next_fire_at
    assert right is not None
    stored_as(old, "vancouver", right + HOUR)

    moved = firing.recompute_zones(new)

    assert [(schedule.key, schedule.next_fire_at, before) for schedule, before in moved] == [
        ("vancouver", right, right + HOUR)
    ]
    assert [entry.verb for entry in schedules.versions(new, "vancouver")] == ["move", "create"]
    assert "2025b → 2026f" in (schedules.versions(new, "vancouver")[0].reason or "")
    assert [entry.verb for entry in schedules.versions(new, "paris")] == ["create"]
    assert {each.tzdata for each in schedules.find(new)} == {"2026f"}
    assert firing.recompute_zones(new) == []


def test_a_fire_that_is_due_already_is_fired_as_it_was_told_and_never_twice(world: World, clock: VirtualClock) -> None:
    old, new = replace(world, tzdata="2025b"), replace(world, tzdata="2026f")
    created(old, "s", "0 13 * * *", zone="Europe/Paris")  # noon in UTC
    stored_as(old, "s", NOON)

    assert firing.recompute_zones(new) == []
    firing.fire_due(new)
    firing.fire_due(new)

    assert answer(new, "s") == [("ran", None, "schedule")]


def test_a_fire_that_moves_back_behind_one_on_record_does_not_repeat_it(world: World, clock: VirtualClock) -> None:
    """0 duplicates: the moved schedule finds its instant on record."""
    old, new = replace(world, tzdata="2025b"), replace(world, tzdata="2026f")
    created(old, "s", overlap="allow")
    clock.advance(MINUTE)
    firing.fire_due(old)
    stored_as(old, "s", NOON + 90 * MINUTE)

    [(moved, _)] = firing.recompute_zones(new)
    assert moved.next_fire_at == NOON + 2 * MINUTE
    clock.advance(MINUTE)
    firing.fire_due(new)

    assert answer(new, "s") == [("ran", None, "schedule")] * 2


def test_a_zone_that_is_gone_stops_nobody_else_from_being_recomputed(world: World) -> None:
    """Fault 34."""
    old, new = replace(world, tzdata="2025b"), replace(world, tzdata="2026f")
    created(old, "broken")
    created(old, "sound")
    stored_as(old, "sound", NOON + HOUR)
    world.store.transact(partial(_unknown_zone, key="broken"))

    assert [schedule.key for schedule, _ in firing.recompute_zones(new)] == ["sound"]
    assert schedules.get(new, "broken").next_fire_at == NOON + MINUTE


def _unknown_zone(tx: Tx, key: str) -> None:
    schedule = tx.schedules.get(key, "system")
    assert schedule is not None
    tx.schedules.put(replace(schedule, zone="Mars/Olympus"), expected_version=schedule.version)


def test_whoever_computes_a_fire_says_with_which_zone_database(world: World, clock: VirtualClock) -> None:
    """Hosts of one cluster may have different ones: the next that starts with the newer one must find the fire."""
    old, new = replace(world, tzdata="2025b"), replace(world, tzdata="2026f")
    for key in ("fired", "changed", "unreadable"):
        created(new, key, zone="Europe/Paris")
    world.store.transact(partial(_unknown_zone, key="unreadable"))
    clock.advance(MINUTE)

    schedules.change(old, "changed", {"expression": "*/2 * * * *"})
    firing.fire_due(old)

    assert {each.key: each.tzdata for each in schedules.find(new)} == {
        "fired": "2025b", "changed": "2025b", "unreadable": "2026f",
    }  # fmt: skip


# -- on time -----------------------------------------------------------------------------------------------------


def test_a_fire_carries_everything_its_job_needs(world: World, clock: VirtualClock) -> None:
    created(
        world, "s", owner="ann", group="night", queue="slow", priority="low", payload={"a": 1}, timeout=MINUTE,
        retry=Retry.fixed(7, attempts=3),
    )  # fmt: skip
    clock.advance(MINUTE)
    [(_, [job_id])] = firing.fire_due(world)

    job = jobs.get(world, job_id)
    assert (job.owner, job.group, job.queue, job.priority, job.payload) == ("ann", "night", "slow", "low", {"a": 1})
    assert (job.timeout, job.retry, job.max_attempts) == (MINUTE, Retry.fixed(7, attempts=3), 3)
    assert job.schedule_id == schedules.get(world, "s", owner="ann").number


def test_jitter_is_drawn_once_and_kept(world: World, clock: VirtualClock) -> None:
    due = created(world, "s", "0 * * * *", jitter=10 * MINUTE).next_due_at
    assert due is not None
    assert NOON + HOUR < due < NOON + HOUR + 10 * MINUTE
    clock.move_to(due - TICK)
    assert firing.fire_due(world) == []
    clock.move_to(due)

    [(made, [job_id])] = firing.fire_due(world)

    assert (made.fires[0].fire_at, made.fires[0].due_at) == (NOON + HOUR, due)
    assert jobs.get(world, job_id).run_at == due


def test_a_first_failure_is_tried_again_and_the_rhythm_goes_on(world: World, clock: VirtualClock) -> None:
    """C-13, S3-25, S3-52."""
    created(world, "hourly", "0 * * * *", retry=Retry.fixed(60, attempts=3))
    clock.advance(HOUR)
    firing.fire_due(world)
    [job] = pull(world)
    endings.settle(world, [(job, Outcome("failed", error="Boom"))])
    clock.advance(MINUTE)
    [again] = pull(world)
    endings.ack(world, again.id, again.token)
    clock.advance(HOUR)
    firing.fire_due(world)

    assert again.id == job.id
    assert answer(world, "hourly") == [("ran", None, "schedule")] * 2
