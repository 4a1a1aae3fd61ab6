"""What is expected of a single job: missed once, recovered once, and no false alarms; on three databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from horae import Collect, Debounce
from horae.actions import alerts as alerting
from horae.actions.audit import find_entries
from horae.actions.jobs import jobs, machinery, queues
from horae.actions.jobs.endings import settle
from horae.actions.jobs.promises import find_missing
from horae.actions.jobs.reasons import why
from horae.actions.jobs.requests import Request
from horae.actions.retention import Retention, clean
from horae.actions.schedules import expectations
from horae.core.jobs.job import Filter, Job, Outcome
from horae.core.schedules.expectations import MissedRun
from horae.errors import InvalidInput, KeyConflict, ReservedQueue
from horae.ports.claims import Claim
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.refusals import refused
from tests.support.repairs import repair

SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FAILED = Outcome("failed", error="no mail today", final=True)


@pytest.fixture
def stored(database_url: str, clock: VirtualClock) -> Iterator[World]:
    engine = create_store_engine(database_url)
    store = open_store(engine)
    yield World(store, clock, LoadedDice())
    store.close()


def asked(world: World, expect: str | None = "within 10m", **options: Any) -> Job:
    return jobs.enqueue(world, Request("send", expect=expect, **options)).job


def keep(world: World, clock: VirtualClock, until: datetime) -> None:
    """Do what keepers do, and nothing of what workers do, up to an instant."""
    while clock.now() < until:
        clock.advance(min(MINUTE, until - clock.now()))
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


def codes(world: World, job: Job) -> list[str]:
    return [each.reason for each in why(world, jobs.get(world, job.id))]


def test_a_job_that_nobody_runs_leaves_one_record(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    (waiting,) = missed(stored, state="waiting")
    assert (waiting.job_number, waiting.due_at) == (job.number, NOON + 10 * MINUTE)
    assert codes(stored, job)[-1] == "expected_by"

    keep(stored, clock, NOON + 9 * MINUTE)
    assert missed(stored) == []
    keep(stored, clock, NOON + 2 * HOUR)
    (found,) = missed(stored)
    assert (found.job_number, found.state, found.count, found.expect) == (job.number, "open", 1, "within 10m")
    assert (found.expected_at, found.due_at, found.found_at) == (NOON, NOON + 10 * MINUTE, NOON + 10 * MINUTE)
    assert expectations.count_missing(stored) == 1
    assert missed(stored, job=job.id) == [found]
    assert missed(stored, job="job_999") == []
    assert codes(stored, job)[-1] == "expected_missed"


def test_a_job_that_succeeds_in_time_leaves_none(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    clock.advance(5 * MINUTE)
    assert work(stored) == 1
    assert codes(stored, job) == ["done", "expected_met"]
    keep(stored, clock, NOON + HOUR)
    assert missed(stored) == missed(stored, state="waiting") == []
    assert codes(stored, job) == ["done"]


def test_a_late_success_closes_the_record_once(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    keep(stored, clock, NOON + 30 * MINUTE)
    assert work(stored) == 1
    assert codes(stored, job) == ["done", "expected_came_late"]
    keep(stored, clock, NOON + 40 * MINUTE)
    (found,) = missed(stored)
    assert (found.state, found.ended_at, found.count) == ("recovered", NOON + 30 * MINUTE, 1)
    keep(stored, clock, NOON + 3 * HOUR)
    assert missed(stored) == [found]


def test_a_keeper_that_comes_late_tells_late_from_in_time(stored: World, clock: VirtualClock) -> None:
    early, late = asked(stored), asked(stored, queue="slow")
    clock.advance(5 * MINUTE)
    work(stored)
    clock.advance(20 * MINUTE)
    claim = Claim("slow", 5, "worker", MINUTE, steady=stored.clock.steady())
    settle(stored, [(job, Outcome("succeeded")) for job in stored.store.claim(claim, now=clock.now())])
    keep(stored, clock, NOON + HOUR)
    (found,) = missed(stored)
    assert (found.job_number, found.state, found.ended_at) == (late.number, "recovered", NOON + 25 * MINUTE)
    assert early.number != late.number


def test_a_dead_job_is_missing_until_it_is_revived_and_succeeds(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    work(stored, FAILED)
    keep(stored, clock, NOON + HOUR)
    (found,) = missed(stored)
    assert (found.state, found.due_at) == ("open", NOON + 10 * MINUTE)
    jobs.revive(stored, job.id)
    work(stored)
    keep(stored, clock, NOON + 2 * HOUR)
    assert [each.state for each in missed(stored)] == ["recovered"]


def test_a_retry_that_succeeds_in_time_is_enough(stored: World, clock: VirtualClock) -> None:
    asked(stored)
    work(stored, Outcome("failed", error="once", delay=MINUTE))
    clock.advance(2 * MINUTE)
    assert work(stored) == 1
    keep(stored, clock, NOON + HOUR)
    assert missed(stored) == []


@pytest.mark.parametrize("found_first", [True, False])
def test_a_cancelled_job_is_not_expected(found_first: bool, stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    if found_first:
        keep(stored, clock, NOON + HOUR)
    jobs.cancel(stored, job.id)
    keep(stored, clock, NOON + 2 * HOUR)
    assert [(each.state, each.reason) for each in missed(stored)] == [("dropped", "cancelled")] * found_first
    assert missed(stored, state="waiting") == []


def test_a_running_job_that_is_cancelled_is_not_expected(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    (held,) = take(stored)
    keep(stored, clock, NOON + 11 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"]
    jobs.cancel(stored, job.id)
    settle(stored, [(held, Outcome("cancelled"))])
    keep(stored, clock, NOON + HOUR)
    assert [(each.state, each.reason) for each in missed(stored)] == [("dropped", "cancelled")]


@pytest.mark.parametrize("by", [-20 * MINUTE, HOUR])
def test_a_job_that_is_moved_is_expected_by_its_new_time(by: timedelta, stored: World, clock: VirtualClock) -> None:
    job = asked(stored, delay=HOUR)
    jobs.reschedule(stored, job.id, run_at=NOON + HOUR + by)
    due = NOON + HOUR + by + 10 * MINUTE
    (waiting,) = missed(stored, state="waiting")
    assert (waiting.expected_at, waiting.due_at) == (due - 10 * MINUTE, due)
    keep(stored, clock, due - SECOND)
    assert missed(stored) == []
    keep(stored, clock, due)
    assert [each.due_at for each in missed(stored)] == [due]


def test_moving_a_job_drops_what_was_missing(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    keep(stored, clock, NOON + HOUR)
    jobs.reschedule(stored, job.id, run_at=NOON + 2 * HOUR)
    keep(stored, clock, NOON + 3 * HOUR)
    assert [(each.state, each.reason) for each in missed(stored)] == [("open", None), ("dropped", "rescheduled")]


def test_an_instant_does_not_move_with_the_job(stored: World, clock: VirtualClock) -> None:
    job = asked(stored, "by 2030-01-07T13:00:00Z")
    jobs.reschedule(stored, job.id, run_at=NOON + 3 * HOUR)
    keep(stored, clock, NOON + 2 * HOUR)
    assert [(each.state, each.due_at) for each in missed(stored)] == [("open", NOON + HOUR)]


def test_a_priority_alone_moves_nothing(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    jobs.reschedule(stored, job.id, priority="high")
    assert [each.due_at for each in missed(stored, state="waiting")] == [NOON + 10 * MINUTE]


def test_a_copy_takes_over_what_was_expected(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    work(stored, FAILED)
    keep(stored, clock, NOON + HOUR)
    copy = jobs.rerun(stored, job.id)
    assert [(each.state, each.reason) for each in missed(stored)] == [("dropped", f"run again as {copy.id}")]
    (waiting,) = missed(stored, state="waiting")
    assert (waiting.job_number, waiting.due_at) == (copy.number, NOON + HOUR + 10 * MINUTE)


def test_the_job_that_was_there_keeps_what_is_expected_of_it(stored: World, clock: VirtualClock) -> None:
    first = asked(stored, unique="nightly")
    assert jobs.enqueue(stored, Request("send", unique="nightly", expect="within 1h")).number == first.number
    assert jobs.enqueue(stored, Request("send", unique="nightly")).number == first.number
    assert [each.expect for each in missed(stored, state="waiting")] == ["within 10m"]


def test_the_same_key_expects_the_same(stored: World) -> None:
    first = asked(stored, key="k")
    assert asked(stored, key="k", expect="within 600s").number == first.number
    with pytest.raises(KeyConflict):
        asked(stored, key="k", expect="within 1h")
    assert len(missed(stored, state="waiting")) == 1


def test_a_transaction_that_is_rolled_back_expects_nothing(stored: World, clock: VirtualClock) -> None:
    with stored.store.engine.connect() as connection:  # type: ignore[attr-defined]
        transaction = connection.begin()
        jobs.enqueue(stored, Request("send", expect="within 10m"), connection=connection)
        transaction.rollback()
    assert missed(stored, state="waiting") == []
    with stored.store.engine.begin() as connection:  # type: ignore[attr-defined]
        jobs.enqueue(stored, Request("send", expect="within 10m"), connection=connection)
    assert len(missed(stored, state="waiting")) == 1
    keep(stored, clock, NOON + 10 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"]


def test_many_jobs_each_have_their_own(stored: World, clock: VirtualClock) -> None:
    mixed = [Request("send", expect="within 10m" if index % 2 else None) for index in range(20)]
    made = jobs.enqueue_many(stored, mixed)
    assert {each.job_number for each in missed(stored, state="waiting")} == {each.number for each in made[1::2]}
    work(stored)
    keep(stored, clock, NOON + HOUR)
    assert missed(stored) == missed(stored, state="waiting") == []


def test_a_span_counts_from_when_the_jobs_before_it_have_ended(stored: World, clock: VirtualClock) -> None:
    parent = jobs.enqueue(stored, Request("first", queue="other"))
    child = asked(stored, after=(parent.id,))
    keep(stored, clock, NOON + HOUR)
    assert missed(stored) == []
    claim = Claim("other", 5, "worker", MINUTE, steady=stored.clock.steady())
    settle(stored, [(job, Outcome("succeeded")) for job in stored.store.claim(claim, now=clock.now())])
    keep(stored, clock, NOON + HOUR + 20 * MINUTE)
    assert [each.job_number for each in missed(stored)] == [child.number]


def test_a_time_holds_whatever_it_waits_for(stored: World, clock: VirtualClock) -> None:
    parent = jobs.enqueue(stored, Request("first", queue="other"))
    asked(stored, "by 12:30", after=(parent.id,))
    keep(stored, clock, NOON + 30 * MINUTE)
    assert [each.due_at for each in missed(stored)] == [NOON + 30 * MINUTE]


def test_a_paused_queue_puts_it_off(stored: World, clock: VirtualClock) -> None:
    asked(stored)
    queues.pause_queue(stored, "default")
    keep(stored, clock, NOON + 3 * HOUR)
    assert missed(stored) == []
    queues.resume_queue(stored, "default")
    keep(stored, clock, NOON + 3 * HOUR + 11 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"]


def test_several_keepers_make_one_record(stored: World, clock: VirtualClock) -> None:
    for _ in range(10):
        asked(stored)
    clock.advance(11 * MINUTE)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: machinery.serve_due(stored, f"keeper {name}"), range(8)))
    keep(stored, clock, NOON + 12 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"] * 10


def test_a_check_whose_place_another_has_taken_does_nothing(stored: World, clock: VirtualClock) -> None:
    asked(stored)
    clock.advance(10 * MINUTE)
    claim = Claim("horae", 5, "dead keeper", MINUTE, steady=stored.clock.steady())
    (check,) = stored.store.claim(claim, now=clock.now())
    assert expectations.check_expectation(stored, check) is not None  # and the keeper dies here
    keep(stored, clock, NOON + 20 * MINUTE)
    assert len(missed(stored)) == 1
    assert expectations.check_expectation(stored, replace(check, number=check.number + 999)) is None


def test_a_check_that_is_gone_is_planned_again(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    with stored.store.engine.begin() as connection:  # type: ignore[attr-defined]
        connection.execute(text("DELETE FROM horae_jobs WHERE queue = 'horae'"))
    (lacking,) = find_missing(stored)
    assert lacking == f"{job.id} has no job that checks what is expected of it"
    assert repair(stored) == 1
    assert not find_missing(stored)
    keep(stored, clock, NOON + 10 * MINUTE)
    assert [each.state for each in missed(stored)] == ["open"]


def test_the_check_is_out_of_reach_of_people(stored: World) -> None:
    asked(stored)
    (row,) = missed(stored, state="waiting")
    with refused(ReservedQueue, "job_reserved", id=f"job_{row.check_job}"):
        jobs.cancel(stored, f"job_{row.check_job}")


def test_one_alert_and_one_when_it_has_recovered(stored: World, clock: VirtualClock) -> None:
    alerts = alerting.Alerts("https://example.org/alerts")
    job = asked(stored)

    def told() -> list[dict[str, Any]]:
        alerting.look_round(stored, alerts)
        sent = jobs.find(stored, Filter(queue=alerts.queue, handler="webhook"))
        return [each.payload["body"] for each in reversed(sent) if each.payload["body"]["type"].startswith("job.")]

    keep(stored, clock, NOON + HOUR)
    assert [each["type"] for each in told()] == [each["type"] for each in told()] == ["job.missed"]
    assert told()[0]["data"]["job"] == job.id
    settle(stored, [(each, Outcome("succeeded")) for each in take(stored) if each.id == job.id])
    keep(stored, clock, NOON + 2 * HOUR)
    assert [each["type"] for each in told()] == [each["type"] for each in told()] == ["job.missed", "job.recovered"]


def test_the_audit_tells_what_went_missing(stored: World, clock: VirtualClock) -> None:
    job = asked(stored)
    keep(stored, clock, NOON + HOUR)
    work(stored)
    keep(stored, clock, NOON + 2 * HOUR)
    found = [entry for _, entry in find_entries(stored, object_id=job.id)]
    assert [(each.verb, each.actor) for each in found] == [
        ("recover", "system/expectations"), ("miss", "system/expectations"),
    ]  # fmt: skip
    assert found[1].after == {"expect": "within 10m", "due_at": "2030-01-07T12:10:00Z"}


def test_records_go_with_time_and_what_waits_stays(stored: World, clock: VirtualClock) -> None:
    asked(stored)
    keep(stored, clock, NOON + HOUR)
    work(stored)
    keep(stored, clock, NOON + 2 * HOUR)
    asked(stored, delay=90 * DAY)
    clock.advance(60 * DAY)
    clean(stored, Retention())
    assert missed(stored) == []
    assert len(missed(stored, state="waiting")) == 1


@pytest.mark.parametrize(
    ("expect", "more", "reason"),
    [
        ("every 1d", {}, "expect_every_of_job"),
        ("by 2030-01-07T11:00:00Z", {}, "expect_before_due"),
        ("by 2030-01-07T13:00:00Z", {"delay": 2 * HOUR}, "expect_before_due"),
        ("by 2030-01-07T13:00:00", {}, "offset_missing"),
        ("10m", {}, "expect_bare_span"),
        ("within 10m", {"debounce": Debounce(MINUTE)}, "gather_not_with"),
        ("within 10m", {"collect": Collect(10, MINUTE)}, "gather_not_with"),
    ],
)
def test_what_cannot_be_expected_of_a_job_is_refused(
    expect: str, more: dict[str, Any], reason: str, stored: World
) -> None:
    with refused(InvalidInput, reason):
        asked(stored, expect, **more)
    assert jobs.find(stored) == []
