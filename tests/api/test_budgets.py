"""Every operation of budgets, and spending, through all four senders."""

from __future__ import annotations

from itertools import count

import pytest

from horae.actions.budgets.repair import check
from horae.api.governance.budgets import Budget, PeriodUsage
from horae.core.governance.budgets import Spending
from horae.errors import Conflict, Forbidden, InvalidInput, LeaseLost, NotAllowed, NotFound
from tests.api.conftest import Sent
from tests.support.refusals import refused
from tests.support.serving import Served

names = (f"llm{number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(names)


def test_a_budget_is_set_read_and_listed(rooms: Sent, name: str) -> None:
    made = rooms.house.budgets.set(name, "tokens", 1000, reason="a first limit")
    rooms.house.budgets.set(f"{name}/ada", "tokens", 10, period="month")
    rooms.house.budgets.set(name, "calls", None, period="ever")

    assert isinstance(made, Budget)
    assert (made.name, made.agent, made.unit, made.period) == (name, "*", "tokens", "day")
    assert (made.capacity, made.settled, made.reserved, made.left, made.overdrawn) == (1000, 0, 0, 1000, 0)
    assert made.refill_at is not None
    assert made.refill_at > made.starts_at
    assert rooms.house.budgets.get(name, "tokens") == made
    listed = list(rooms.house.budgets.list(name=name))
    assert [(each.agent, each.unit, each.period, each.capacity, each.left) for each in listed] == [
        ("*", "calls", "ever", None, None), ("*", "tokens", "day", 1000, 1000), ("ada", "tokens", "month", 10, 10),
    ]  # fmt: skip
    assert listed[0].refill_at is None
    first = rooms.house.budgets.list(name=name).page(None, limit=2)
    rest = rooms.house.budgets.list(name=name).page(first.next_cursor, limit=2)
    assert [*first.items, *rest.items] == listed
    assert rooms.house.budgets.get(f"{name}/ada", "tokens", period="month").capacity == 10


def test_a_correction_counts_and_the_history_shows_it(rooms: Sent, name: str) -> None:
    rooms.house.budgets.set(name, "tokens", 1000)

    changed = rooms.house.budgets.adjust(name, "tokens", 1200, reason="spent by hand")

    assert (changed.settled, changed.left, changed.overdrawn) == (1200, -200, 200)
    [period] = rooms.house.budgets.history(name, "tokens")
    assert isinstance(period, PeriodUsage)
    assert (period.settled, period.overdrawn, period.starts_at) == (1200, 200, changed.starts_at)


def test_a_tenant_sees_its_own_and_sets_none(rooms: Sent, name: str) -> None:
    rooms.house.budgets.set(name, "tokens", 1000)
    rooms.house.budgets.set(name, "tokens", 10, owner="alice")

    assert [each.owner for each in rooms.alice.budgets.list(name=name)] == ["alice"]
    assert rooms.alice.budgets.get(name, "tokens").capacity == 10
    with refused(NotFound, "tenant_unknown"):
        rooms.alice.budgets.get(name, "tokens", owner="system")
    with refused(Forbidden, "scope_missing"):
        rooms.alice.budgets.set(name, "tokens", 10**6)
    with refused(Forbidden, "scope_missing"):
        rooms.alice.budgets.adjust(name, "tokens", -5, reason="a gift")


def test_what_is_no_budget_is_refused(rooms: Sent, name: str) -> None:
    for unit, capacity, period in (("euros", 1, "day"), ("tokens", 1, "week"), ("tokens", -1, "day")):
        with pytest.raises(InvalidInput):
            rooms.house.budgets.set(name, unit, capacity, period=period)
    with refused(InvalidInput, "adjust_reason_missing"):
        rooms.house.budgets.adjust(name, "tokens", 1, reason="")
    with refused(NotFound, "budget_unknown"):
        rooms.house.budgets.get(name, "tokens")
    with refused(InvalidInput, "cost_without_budget"):
        rooms.house.jobs.enqueue("ask", cost={"tokens": 1})
    with refused(InvalidInput, "cost_not_whole"):
        rooms.house.jobs.enqueue("ask", budget=name, cost={"tokens": -1})


def test_a_job_shows_what_it_draws_on(rooms: Sent, name: str) -> None:
    made = rooms.house.jobs.enqueue("ask", budget=f"{name}/ada", cost={"tokens": 100}, queue=name)

    job = rooms.house.jobs.get(made.id)

    assert (job.budget, job.cost) == (f"{name}/ada", {"calls": 1, "tokens": 100})
    rooms.house.jobs.cancel(made.id)
    again = rooms.house.jobs.get(rooms.house.jobs.rerun(made.id).id)
    assert (again.budget, again.cost) == (job.budget, job.cost)


def test_a_schedule_hands_its_budget_on(rooms: Sent, served: Served, name: str) -> None:
    made = rooms.house.schedules.create(name, handler="ask", cron="0 3 * * *", budget=name, cost={"tokens": 100})
    assert (made.budget, made.cost) == (name, {"tokens": 100})

    job_id = rooms.house.schedules.trigger(name).job_id

    assert (rooms.house.jobs.get(job_id).budget, rooms.house.jobs.get(job_id).cost["tokens"]) == (name, 100)
    changed = rooms.house.schedules.change(name, budget=None, cost=None)
    assert changed.budget is None
    with refused(InvalidInput, "cost_without_budget"):
        rooms.house.schedules.change(name, cost={"tokens": 5})


def test_a_worker_spends_and_reports(rooms: Sent, served: Served, name: str) -> None:
    rooms.house.budgets.set(name, "tokens", 1000)
    rooms.house.jobs.enqueue("ask", budget=name, cost={"tokens": 100}, queue=name)
    [job] = rooms.house.jobs.claim("w", queues=[name])

    assert rooms.house.jobs.spend(job.id, job.token, {"tokens": 300}, key="a") == Spending(True)
    assert rooms.house.jobs.spend(job.id, job.token, {"tokens": 300}, key="a").granted, "the same again"
    assert rooms.house.budgets.get(name, "tokens").reserved == 300
    rooms.house.jobs.spent(job.id, job.token, {"tokens": 250}, key="a")
    answer = rooms.house.jobs.spend(job.id, job.token, {"tokens": 800}, key="b")
    assert (answer.granted, answer.wait is not None, "budget_empty" in answer.reason) == (False, True, True)
    with refused(NotAllowed, "budget_too_small", amount=1001):
        rooms.house.jobs.spend(job.id, job.token, {"tokens": 1001}, key="c")
    with refused(Conflict, "spending_key_used"):
        rooms.house.jobs.spend(job.id, job.token, {"tokens": 301}, key="a")
    with refused(LeaseLost, "lease_lost"):
        rooms.house.jobs.spend(job.id, job.token + 1, {"tokens": 1}, key="d")
    rooms.house.jobs.ack(job.id, job.token, spent={"tokens": 30, "calls": 1})

    assert rooms.house.budgets.get(name, "tokens").settled == 280
    assert rooms.house.budgets.get(name, "tokens").reserved == 0
    assert served.world.store.read(check) == []


def test_what_has_not_begun_is_given_back(rooms: Sent, name: str) -> None:
    rooms.house.budgets.set(name, "tokens", 1000)
    rooms.house.jobs.enqueue("ask", budget=name, cost={"tokens": 100}, queue=name)
    [job] = rooms.house.jobs.claim("w", queues=[name])
    rooms.house.jobs.release(job.id, job.token, spent={})
    assert rooms.house.budgets.get(name, "tokens").left == 1000
    [job] = rooms.house.jobs.claim("w", queues=[name])
    rooms.house.jobs.fail(job.id, job.token, "no", final=True, spent={"tokens": 40})

    assert rooms.house.budgets.get(name, "tokens").settled == 40


def test_a_job_that_waits_for_its_budget_says_so(rooms: Sent, name: str) -> None:
    rooms.house.budgets.set(name, "tokens", 50)
    made = rooms.house.jobs.enqueue("ask", budget=name, cost={"tokens": 100}, queue=name)
    assert list(rooms.house.jobs.claim("w", queues=[name])) == []

    reason = rooms.house.jobs.why(made.id)[0]

    assert (reason.code, reason.reason, reason.facts["amount"]) == ("budget", "budget_never_enough", 100)
    rooms.house.budgets.set(name, "tokens", 500)
    assert len(rooms.house.jobs.claim("w", queues=[name])) == 1
