"""Expectations from the verb to the record: missed once, recovered once, and no false alarms; on three databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from horae.actions.audit import find_entries
from horae.actions.jobs import claims, machinery, queues
from horae.actions.jobs.endings import settle
from horae.actions.jobs.jobs import get as get_job
from horae.actions.jobs.promises import find_missing
from horae.actions.retention import Retention, clean
from horae.actions.schedules import expectations, schedules
from horae.actions.schedules.calendars import set_calendar
from horae.actions.schedules.fires import fire_due, trigger
from horae.core.jobs.job import Job, Outcome
from horae.core.schedules.expectations import MissedRun
from horae.core.schedules.schedule import Schedule
from horae.errors import InvalidInput, ReservedQueue
from horae.ports.claims import Claim
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.builders import a_schedule
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.refusals import refused
from tests.support.repairs import repair

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def stored(database_url: str, clock: VirtualClock) -> Iterator[World]:
    engine = create_store_engine(database_url)
    store = open_store(engine)
    yield World(store, clock, LoadedDice())
    store.close()


def created(world: World, expect: str | None = "within 10m", expression: str = "0 * * * *", **fields: Any) -> Schedule:
    return schedules.create(world, a_schedule("hourly", expression, expect=expect, **fields))


def keep(world: World, clock: VirtualClock, until: datetime, *, fires: bool = True) -> None:
    """Do what keepers do, and nothing of what workers do, up to an instant."""
    while clock.now() < until:
        clock.advance(min(5 * MINUTE, until - clock.now()))
        while fires and fire_due(world):
            pass
        while machinery.serve_due(world, "keeper"):
            pass


def take(world: World) -> list[Job]:
    claim = Claim("default", 20, "worker", timedelta(minutes=5), steady=world.clock.steady())
    return world.route().store.claim(claim, now=world.clock.now())


def work(world: World, outcome: Outcome | None = None) -> int:
    taken = take(world)
    settle(world, [(job, outcome or Outcome("succeeded")) for job in taken])
    return len(taken)


def missed(world: World, **wanted: Any) -> list[MissedRun]:
    return expectations.find_missed(world, **wanted)


def verbs(world: World) -> list[str]:
    return [entry.verb for entry in schedules.versions(world, "hourly")][::-1]


def test_a_run_that_nobody_makes_leaves_one_record(stored: World, clock: VirtualClock) -> None:
    created(stored)
    keep(stored, clock, NOON + HOUR + 9 * MINUTE)
    assert missed(stored) == []
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    (found,) = missed(stored)
    assert (found.schedule, found.state, found.count, found.expect) == ("hourly", "open", 1, "within 10m")
    assert (found.expected_at, found.due_at) == (NOON + HOUR, NOON + HOUR + 10 * MINUTE)
    assert schedules.get(stored, "hourly").missed_at == found.due_at

    keep(stored, clock, NOON + 4 * HOUR + 10 * MINUTE)
    (found,) = missed(stored)
    assert (found.state, found.count, found.last_due_at) == ("open", 4, NOON + 4 * HOUR + 10 * MINUTE)
    assert expectations.count_missing(stored) == 1
    assert verbs(stored) == ["create", "miss"]


def test_a_run_that_succeeds_in_time_leaves_none(stored: World, clock: VirtualClock) -> None:
    created(stored)
    for hour in range(1, 5):
        keep(stored, clock, NOON + hour * HOUR + 5 * MINUTE)
        assert work(stored) == 1
    keep(stored, clock, NOON + 4 * HOUR + 55 * MINUTE)
    assert missed(stored) == []
    assert schedules.get(stored, "hourly").missed_at is None


def test_a_late_success_closes_the_record_once(stored: World, clock: VirtualClock) -> None:
    created(stored)
    keep(stored, clock, NOON + 2 * HOUR + 15 * MINUTE)
    assert work(stored) == 1
    assert machinery.serve_due(stored, "keeper") == 1, "the success has brought the check forward"
    (found,) = missed(stored)
    assert (found.state, found.ended_at, found.count) == ("recovered", clock.now(), 2)
    assert schedules.get(stored, "hourly").missed_at is None
    keep(stored, clock, NOON + 3 * HOUR + 5 * MINUTE)
    work(stored)
    keep(stored, clock, NOON + 3 * HOUR + 30 * MINUTE)
    assert missed(stored) == [found]
    assert verbs(stored) == ["create", "miss", "recover"]


def test_a_run_that_fails_is_missing(stored: World, clock: VirtualClock) -> None:
    created(stored)
    keep(stored, clock, NOON + HOUR + 5 * MINUTE)
    work(stored, Outcome("failed", error="no space left"))
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"]


def test_a_run_by_hand_makes_up_for_it(stored: World, clock: VirtualClock) -> None:
    created(stored, overlap="allow")
    keep(stored, clock, NOON + HOUR + 10 * MINUTE, fires=False)
    trigger(stored, "hourly")
    work(stored)
    machinery.serve_due(stored, "keeper")
    assert [each.state for each in missed(stored)] == ["recovered"]


def test_several_keepers_make_one_record(stored: World, clock: VirtualClock) -> None:
    created(stored)
    clock.advance(3 * HOUR + 30 * MINUTE)
    with ThreadPoolExecutor(4) as pool:
        served = list(pool.map(lambda number: machinery.serve_due(stored, f"keeper-{number}"), range(8)))
    assert sum(served) == 1
    assert [(each.count, each.state) for each in missed(stored)] == [(3, "open")]


def test_a_keeper_that_dies_after_the_check_makes_no_second_record(stored: World, clock: VirtualClock) -> None:
    made = created(stored)
    clock.advance(HOUR + 10 * MINUTE)
    claim = Claim("horae", 1, "first", timedelta(seconds=10), steady=clock.steady())
    (job,) = stored.route().store.claim(claim, now=clock.now())
    assert job.number == made.check_job
    assert expectations.check_expectation(stored, job) == NOON + 2 * HOUR + 10 * MINUTE  # and here it dies
    clock.advance(MINUTE)
    assert machinery.serve_due(stored, "second") >= 0
    keep(stored, clock, NOON + HOUR + 30 * MINUTE)
    assert [(each.count, each.state) for each in missed(stored)] == [(1, "open")]
    assert verbs(stored) == ["create", "miss"]
    later = get_job(stored, f"job_{made.check_job}")
    assert (later.state, later.run_at) == ("queued", NOON + 2 * HOUR + 10 * MINUTE)


def test_a_keeper_that_comes_late_tells_late_from_missing(stored: World, clock: VirtualClock) -> None:
    created(stored)
    clock.advance(HOUR + 30 * MINUTE)
    fire_due(stored)
    work(stored)
    clock.advance(2 * HOUR)
    machinery.serve_due(stored, "keeper")
    second, first = missed(stored)
    assert (first.state, first.count, first.due_at) == ("recovered", 1, NOON + HOUR + 10 * MINUTE)
    assert (second.state, second.count, second.due_at) == ("open", 2, NOON + 2 * HOUR + 10 * MINUTE)


def test_a_pause_drops_what_is_missing_and_expects_nothing(stored: World, clock: VirtualClock) -> None:
    created(stored)
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    schedules.pause(stored, "hourly")
    (found,) = missed(stored)
    assert (found.state, found.reason) == ("dropped", "paused")
    keep(stored, clock, NOON + DAY)
    schedules.resume(stored, "hourly")
    keep(stored, clock, NOON + DAY + HOUR + 9 * MINUTE)
    assert len(missed(stored)) == 1
    keep(stored, clock, NOON + DAY + HOUR + 10 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open", "dropped"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"expect": None}, "changed"), ({"enabled": False}, "disabled"), ({"expect": "within 1d"}, "changed")],
)
def test_a_change_drops_what_is_missing(
    stored: World, clock: VirtualClock, change: dict[str, Any], reason: str
) -> None:
    created(stored)
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    after = schedules.change(stored, "hourly", change)
    assert [(each.state, each.reason) for each in missed(stored)] == [("dropped", reason)]
    assert after.missed_at is None
    keep(stored, clock, NOON + 12 * HOUR)
    assert len(missed(stored)) == 1


def test_a_deleted_schedule_is_not_expected(stored: World, clock: VirtualClock) -> None:
    created(stored)
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    schedules.delete(stored, "hourly")
    keep(stored, clock, NOON + 5 * HOUR)
    assert [(each.state, each.reason) for each in missed(stored)] == [("dropped", "deleted")]


def test_an_earlier_deadline_brings_the_check_forward(stored: World, clock: VirtualClock) -> None:
    created(stored, "every 3d")
    schedules.change(stored, "hourly", {"expect": "within 5m"})
    keep(stored, clock, NOON + HOUR + 5 * MINUTE)
    assert [each.due_at for each in missed(stored)] == [NOON + HOUR + 5 * MINUTE]


def test_days_and_hours_that_are_left_out_raise_no_alarm(stored: World, clock: VirtualClock) -> None:
    set_calendar(stored, "bank", ["2030-01-08"])
    schedules.create(stored, a_schedule("daily", "0 9 * * *", expect="every 1d1h", calendar="bank"))
    schedules.create(stored, a_schedule("quiet", "0 * * * *", expect="within 10m", quiet_hours="12:30-08:00"))
    keep(stored, clock, NOON + 20 * HOUR + 9 * MINUTE, fires=False)
    assert missed(stored) == []
    keep(stored, clock, NOON + 20 * HOUR + 10 * MINUTE, fires=False)
    assert [each.schedule for each in missed(stored)] == ["quiet"]
    keep(stored, clock, NOON + 2 * DAY, fires=False)
    assert missed(stored, schedule="daily") == []


def test_a_paused_queue_puts_the_check_off(stored: World, clock: VirtualClock) -> None:
    created(stored)
    queues.pause_queue(stored, "default", until=NOON + 3 * HOUR)
    keep(stored, clock, NOON + 3 * HOUR + 5 * MINUTE)
    assert missed(stored) == []
    keep(stored, clock, NOON + 3 * HOUR + 15 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"]


def test_a_check_that_is_gone_is_planned_again(stored: World, clock: VirtualClock) -> None:
    made = created(stored)
    assert not find_missing(stored)

    def lose(tx: Any) -> None:
        job = tx.jobs.lock(made.check_job)
        assert tx.jobs.end_waiting(job, reason="lost", now=clock.now())

    stored.route().store.transact(lose)
    assert find_missing(stored) == ["schedule hourly has no job that checks its expectation"]
    assert repair(stored) == 1
    assert not find_missing(stored)
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    assert len(missed(stored)) == 1


def test_the_check_is_out_of_reach_of_people(stored: World) -> None:
    from horae.actions.jobs.jobs import cancel

    made = created(stored)
    with refused(ReservedQueue, "job_reserved"):
        cancel(stored, f"job_{made.check_job}")


def test_a_schedule_without_expectations_plans_no_check(stored: World, clock: VirtualClock) -> None:
    made = created(stored, None)
    assert (made.check_job, made.expected_since) == (None, None)
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    (job,) = take(stored)
    assert not job.has_dependents
    assert claims.peek(stored, []).next_machinery_at is None


def test_what_cannot_be_expected_is_refused(stored: World) -> None:
    with refused(InvalidInput, "expect_bare_span"):
        created(stored, "10m")


def test_records_are_found_by_owner_state_and_schedule_and_go_with_time(stored: World, clock: VirtualClock) -> None:
    created(stored)
    schedules.create(stored, a_schedule("acme", "0 * * * *", owner="acme", expect="within 10m", queue="acme"))
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    assert [each.schedule for each in missed(stored, owner="acme", state="open")] == ["acme"]
    assert [each.owner for each in missed(stored, queues=["default"])] == ["system"]
    first = missed(stored, limit=1)
    assert len(missed(stored, limit=5, before=first[0].number)) == 1
    assert expectations.count_missing(stored, owner="acme") == 1
    with refused(InvalidInput, "choice_unknown"):
        missed(stored, state="lost")
    schedules.pause(stored, "hourly")
    clock.advance(40 * DAY)
    clean(stored, Retention())
    assert [each.owner for each in missed(stored)] == ["acme"], "what is open stays"


def test_the_audit_tells_what_went_missing(stored: World, clock: VirtualClock) -> None:
    created(stored)
    keep(stored, clock, NOON + HOUR + 10 * MINUTE)
    entry = find_entries(stored, verb="miss")[0][1]
    assert (entry.actor, entry.object_type, entry.object_id) == ("system/expectations", "schedule", "hourly")
    assert (entry.after["due_at"], entry.after["expect"]) == ("2030-01-07T13:10:00Z", "within 10m")
