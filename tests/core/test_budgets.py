"""Budgets: how much fits, what an attempt pays, when an empty one is refilled."""

from datetime import UTC, datetime, timedelta

import pytest

from horae.core.governance.budgets import (
    MOST,
    Budget,
    BudgetPeriod,
    Draw,
    JobBudget,
    Reservation,
    amounts_from,
    back_at,
    charges,
    concerned,
    draws,
    job_budget,
    period_end,
    period_start,
)
from horae.errors import InvalidInput, InvalidName
from tests.support.refusals import refused

NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)
TOKENS, CALLS = 1, 2
UNITS = {TOKENS: "tokens", CALLS: "calls"}


def a_period(capacity: int | None = 10, **fields: int) -> BudgetPeriod:
    return BudgetPeriod(TOKENS, NOON, capacity, **fields)


def reserved(amount: int, key: str = "", budget: int = TOKENS, **fields: object) -> Reservation:
    return Reservation(7, 1, key, budget, NOON, amount, **fields)  # type: ignore[arg-type]


def pays(*own: Reservation, spent: dict[str, int] | None = None, lost: bool = False) -> list[int]:
    return [amount for _, amount in charges(own, UNITS, spent, lost=lost)]


# -- what callers write ------------------------------------------------------------------------------------------------


def test_a_job_draws_on_a_budget_by_name_and_costs_one_call_unless_it_says_otherwise() -> None:
    assert job_budget(None, None) is None
    assert job_budget("llm", None) == JobBudget("llm", {"calls": 1})
    assert job_budget("llm", {"tokens": 2000}) == JobBudget("llm", {"calls": 1, "tokens": 2000})
    assert job_budget("llm", {"calls": 0}) == JobBudget("llm", {"calls": 0})
    assert job_budget("llm/researcher", None) == JobBudget("llm", {"calls": 1}, "researcher")


@pytest.mark.parametrize("drawn_on", [JobBudget("llm", {"calls": 1}), JobBudget("llm", {"tokens": 5}, "a b")])
def test_it_is_stored_and_shown_as_it_was_given(drawn_on: JobBudget) -> None:
    assert JobBudget.from_json(drawn_on.as_json()) == drawn_on
    assert job_budget(drawn_on.reference, {"calls": 0, **drawn_on.cost}) == JobBudget(
        "llm", {"calls": 0, **drawn_on.cost}, drawn_on.agent
    )


@pytest.mark.parametrize("cost", [{"tokens": -1}, {"tokens": 1.5}, {"tokens": True}, {"tokens": MOST + 1}])
def test_an_amount_is_a_whole_number(cost: dict[str, int]) -> None:
    with refused(InvalidInput, "cost_not_whole", unit="tokens"):
        amounts_from(cost)


def test_what_cannot_be_read_is_refused() -> None:
    with refused(InvalidInput, "cost_unreadable"):
        job_budget("llm", {"euros": 1})
    with refused(InvalidInput, "cost_unreadable"):
        job_budget("llm", "2000")  # type: ignore[arg-type]
    with refused(InvalidInput, "cost_without_budget"):
        job_budget(None, {"tokens": 1})
    with refused(InvalidInput, "budget_unreadable"):
        job_budget(5, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        job_budget("", None)


# -- periods -----------------------------------------------------------------------------------------------------------


def test_periods_are_those_of_utc_and_meet_without_a_gap() -> None:
    assert period_end("day", NOON) == datetime(2026, 4, 1, tzinfo=UTC)
    assert period_end("month", NOON) == datetime(2026, 4, 1, tzinfo=UTC)
    assert period_end("month", datetime(2026, 12, 31, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)
    assert period_end("ever", NOON) is None
    for days in range(800):
        now = NOON + timedelta(days=days)
        for period in ("day", "month"):
            end = period_end(period, now)
            assert end is not None
            assert period_start(period, now) <= now < end == period_start(period, end)


def test_a_job_that_lacks_several_budgets_comes_back_at_the_last_refill() -> None:
    day, month = Budget("llm", "tokens", "day", 1), Budget("llm", "calls", "month", 1)
    lacking = [Draw(each, a_period(), 99) for each in (day, month)]

    assert back_at(lacking, NOON - timedelta(days=9), "job_1") >= datetime(2026, 4, 1, tzinfo=UTC)
    assert back_at([Draw(Budget("llm", "tokens", "ever", 1), a_period(), 99)], NOON, "a") == NOON + timedelta(days=1)


# -- reserve -----------------------------------------------------------------------------------------------------------


def test_a_period_has_room_for_what_is_neither_settled_nor_reserved() -> None:
    period = a_period(10, settled=4, reserved=3)

    assert (period.has_room_for(3), period.has_room_for(4)) == (True, False)
    assert a_period(None, settled=10**9).has_room_for(MOST), "without a capacity it only counts"


def test_a_cost_draws_on_the_budgets_of_its_units_only() -> None:
    tokens, money = Budget("llm", "tokens", "day", 10, number=1), Budget("llm", "micros", "day", 10, number=2)
    periods = {1: a_period(), 2: a_period()}

    drawn = draws({"tokens": 4, "calls": 1, "micros": 0}, [tokens, money], periods)

    assert [(each.budget, each.amount, each.fits) for each in drawn] == [(tokens, 4, True)]


def test_a_job_of_an_agent_draws_on_its_own_budget_and_on_that_of_all() -> None:
    budgets = [Budget("llm", "tokens", "day", 1, owner, agent) for owner in ("system", "tom") for agent in "*ab"]

    assert [each.agent for each in concerned(budgets, "tom", JobBudget("llm", {}, "a"))] == ["*", "a"]
    assert [each.agent for each in concerned(budgets, "tom", JobBudget("llm", {}))] == ["*"]
    assert concerned(budgets, "tom", JobBudget("other", {})) == []


# -- settle ------------------------------------------------------------------------------------------------------------


def test_what_is_not_reported_is_paid_in_full() -> None:
    assert pays(reserved(100), reserved(1, budget=CALLS)) == [100, 1]


def test_what_is_reported_is_paid_as_reported() -> None:
    assert pays(reserved(100), reserved(1, budget=CALLS), spent={"tokens": 60}) == [60, 0]
    assert pays(reserved(100, spent=70)) == [70]
    assert pays(reserved(100), spent={"tokens": 170}) == [170], "above the reservation: in full"
    assert pays(reserved(100), spent={}) == [0], "nothing was spent"


def test_an_attempt_that_accounts_for_steps_pays_for_these_steps() -> None:
    step, done = reserved(30, "a"), reserved(20, "b", state="settled", spent=15)

    assert pays(reserved(50), step, done) == [0, 30], "the settled one has been paid for"
    assert pays(reserved(50), done, reserved(1, budget=CALLS)) == [0, 1], "calls have no steps"


def test_lost_counts_as_spent() -> None:
    assert pays(reserved(50), reserved(30, "a"), lost=True) == [50, 30]
    assert pays(reserved(50, spent=20), lost=True) == [50], "a report before the loss may not be the last"
    assert pays(reserved(50, spent=70), lost=True) == [70]


def test_an_overdraft_is_noted_at_its_highest() -> None:
    period = a_period(10, settled=8, reserved=2).settle(2, 9)

    assert (period.settled, period.reserved, period.left, period.overdrawn) == (17, 0, -7, 7)
    assert period.settle(0, -5).overdrawn == 7
    assert not period.has_room_for(1)
