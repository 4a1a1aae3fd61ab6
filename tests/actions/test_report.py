"""The report on governance: its formulas, its warning lines, its windows, and that it stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.budgets.budgets import adjust, set_budget
from horae.actions.governance import report as reporting
from horae.actions.governance.proposals import propose
from horae.actions.jobs import claims, endings
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.requests import Request
from horae.actions.rules import job_rules
from horae.core.access.callers import Caller
from horae.core.governance.proposals import Proposal
from horae.core.governance.report import JobCounts, Report, grain_of, lateness_of, spans_of
from horae.core.jobs.job import Job, Outcome
from horae.errors import InvalidInput
from horae.ports.world import World
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import migrate
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.refusals import refused

DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
LEASE = timedelta(seconds=30)


@pytest.fixture
def world(database_url: str, clock: VirtualClock) -> Iterator[World]:
    engine = create_store_engine(database_url)
    migrate(engine)
    store, dice = open_store(engine), LoadedDice()
    yield World(store, clock, dice, rules=job_rules(dice))
    store.close()


def remember(world: World, number: int, *, owner: str = "alice", **fields: Any) -> None:
    caller = Caller(owner, frozenset({"tasks"}), "agent/bob", agent="bob")
    given = {"id": f"mem_{number}", "subject": "Ann", "evidence": ["chat:1"]} | fields
    propose(world, Proposal("memory", f"Ann likes tea {number}", **given), owner=owner, caller=caller)


def taken(world: World) -> list[Job]:
    return claims.claim(world, "governance", 100, worker_id="w1", lease=LEASE)


def work(world: World, *outcomes: Outcome) -> None:
    """End the due jobs, one after the other, with these outcomes, and the rest well."""
    due = taken(world)
    ends = [*outcomes, *[Outcome("succeeded")] * (len(due) - len(outcomes))]
    endings.settle(world, list(zip(due, ends, strict=True)))


def report(world: World, **wanted: Any) -> Report:
    return reporting.report(world, **wanted)[0]


def codes(found: Report) -> list[str]:
    return [each.code for each in found.warnings]


FAILED = Outcome("failed", error="the source did not answer", delay=SECOND)


def test_a_report_on_nothing_has_no_rates_and_no_warnings(world: World) -> None:
    found = report(world)

    assert found.jobs == JobCounts()
    assert (found.jobs.success_rate, found.jobs.retry_rate, found.late.p95) == (None, None, None)
    assert (found.objects, found.events, found.decisions, found.warnings, found.complete) == ((), {}, {}, (), True)
    assert [each.jobs for each in found.series] == [JobCounts()] * 7


def test_rates_follow_the_formulas_and_a_retried_job_counts_once(world: World, clock: VirtualClock) -> None:
    for number in range(4):
        remember(world, number)
    work(world, FAILED)
    clock.advance(SECOND * 2)
    work(world, FAILED)
    clock.advance(SECOND * 2)
    work(world)

    found = report(world)

    assert found.jobs == JobCounts(jobs=4, succeeded=4, retried=1)
    assert (found.jobs.success_rate, found.jobs.retry_rate, found.jobs.dead_rate) == (1.0, 0.25, 0.0)
    assert found.events == {"proposed": 4, "verified": 4}
    assert codes(found) == ["retries"]


def test_any_dead_letter_warns(world: World, clock: VirtualClock) -> None:
    for number in range(10):
        remember(world, number)
    for _ in range(3):
        work(world, FAILED)
        clock.advance(SECOND * 2)

    found = report(world)

    assert (found.jobs.dead, found.jobs.succeeded, found.jobs.jobs) == (1, 9, 10)
    assert (found.jobs.success_rate, found.jobs.dead_rate) == (0.9, 0.1)
    assert codes(found) == ["dead_letters"]
    assert "Dead letters: 1" in found.warnings[0].text


def test_lateness_is_that_of_what_is_due_and_waits(world: World, clock: VirtualClock) -> None:
    for number in range(3):
        remember(world, number)
    clock.advance(SECOND * 300)
    assert codes(report(world)) == []
    clock.advance(SECOND)

    found = report(world)

    assert (found.late.count, found.late.p50, found.late.p95) == (3, SECOND * 301, SECOND * 301)
    assert codes(found) == ["late"]
    work(world)
    assert report(world).late.count == 0


def test_a_window_leaves_out_what_lies_before_it_and_its_spans_add_up(world: World, clock: VirtualClock) -> None:
    for number in range(3):
        remember(world, number)
        work(world)
        clock.advance(DAY * 3)

    week, month = report(world), report(world, period=DAY * 60)

    assert (week.events["proposed"], month.events["proposed"]) == (2, 3)
    assert (week.grain, month.grain) == ("day", "week")
    assert [each.events.get("proposed", 0) for each in week.series] == [0, 1, 0, 0, 1, 0, 0]
    assert sum(each.jobs.succeeded for each in month.series) == month.jobs.succeeded == 3
    earlier = report(world, until=clock.now() - DAY * 7)
    assert earlier.events == {"proposed": 1, "verified": 1}


def test_a_tenant_sees_what_is_its_own(world: World) -> None:
    remember(world, 1)
    remember(world, 2, owner="bob")
    work(world)

    hers, all_of_them = report(world, owner="alice"), report(world)

    assert (hers.jobs.jobs, sum(each.count for each in hers.objects), hers.events["proposed"]) == (1, 1, 1)
    assert (all_of_them.jobs.jobs, all_of_them.events["proposed"]) == (2, 2)


def test_jobs_about_objects_that_are_stored_nowhere_count_too(world: World) -> None:
    asked = Request("govern", queue="governance", object_type="memory", object_id="elsewhere", action="verify")
    enqueue(world, asked)
    work(world)

    assert report(world).jobs == JobCounts(jobs=1, succeeded=1)


def test_a_decision_and_a_review_are_counted_in_their_window(world: World, clock: VirtualClock) -> None:
    remember(world, 1, risk="high", tamper=0.9)

    found = report(world)

    assert found.decisions == {"blocked": 2}  # to propose it, and to open the review
    assert (found.reviews_open, found.reviews) == (1, {"open": 1})
    assert [each.state for each in found.objects] == ["quarantine"]


def test_an_overdrawn_budget_warns(world: World) -> None:
    set_budget(world, "llm", "tokens", 10, owner="alice")
    adjust(world, "llm", "tokens", 12, owner="alice", reason="spent by hand")

    found, budgets = reporting.report(world, owner="alice")

    assert (codes(found), [each.period.overdrawn for each in budgets]) == (["overdrawn"], [2])
    assert report(world, owner="bob").warnings == ()


def test_more_than_can_be_counted_at_once_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "MOST_COUNTED", 5)
    for number in range(6):
        remember(world, number)

    found = report(world)

    assert not found.complete
    assert sum(each.count for each in found.objects) == 5
    assert "incomplete" in codes(found)


@pytest.mark.parametrize("period", [timedelta(0), -DAY, DAY * 401])
def test_a_period_nobody_can_use_is_refused(world: World, period: timedelta) -> None:
    with refused(InvalidInput, "report_period_unfit", most_days=400):
        report(world, period=period)


def test_a_report_does_not_end_in_the_future(world: World, clock: VirtualClock) -> None:
    with refused(InvalidInput, "report_ahead"):
        report(world, until=clock.now() + SECOND)


def test_percentiles_go_by_rank() -> None:
    found = lateness_of([SECOND * each for each in range(1, 101)])

    assert (found.p50, found.p95, found.longest) == (SECOND * 50, SECOND * 95, SECOND * 100)


def test_spans_are_counted_back_from_the_end(clock: VirtualClock) -> None:
    spans = spans_of(clock.now() - DAY * 10, clock.now(), "week")

    assert [until - at for at, until in spans] == [DAY * 3, DAY * 7]
    assert (grain_of(DAY * 31), grain_of(DAY * 32)) == ("day", "week")
