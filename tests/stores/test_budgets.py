"""Budgets on three databases: what is reserved and settled adds up, whoever dies, comes late or comes twice."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from horae.actions.budgets import budgets
from horae.actions.budgets.repair import check, settle_leftovers
from horae.actions.budgets.rule import BudgetRule
from horae.actions.budgets.spending import report, spend
from horae.actions.jobs import claims, endings, jobs
from horae.actions.jobs.reasons import why
from horae.core.governance.budgets import SPREAD, BudgetPeriod, JobBudget, Reservation, Spending
from horae.core.jobs.job import Filter, Job, Lease, Outcome
from horae.core.jobs.payloads import encode
from horae.core.time.instants import iso
from horae.errors import Conflict, InvalidInput, LeaseLost, NotAllowed, NotFound
from horae.ports.claims import Claim
from horae.ports.definitions import StoredDefinition
from horae.ports.world import World
from horae.stores.store import SqlStore
from horae.testing.builders import LEASE, a_new_job
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from horae.testing.conformance.support import attempts, put
from tests.support.refusals import refused

MIDNIGHT = datetime(NOON.year, NOON.month, NOON.day, tzinfo=NOON.tzinfo) + timedelta(days=1)
LONG = timedelta(days=3)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(store: SqlStore, clock: VirtualClock) -> World:
    return World(store, clock, LoadedDice(), rules=(BudgetRule(),))


def costly(tokens: int = 100, *, name: str = "llm", agent: str = "*", **fields: Any) -> Any:
    cost = {"calls": 1, "tokens": tokens}
    return a_new_job(budget=encode(JobBudget(name, cost, agent).as_json()), **fields)


def start(world: World, *new: Any, limit: int = 100, lease: timedelta = LEASE) -> list[Job]:
    """Store jobs and claim what may start."""
    put(world.store, *new, now=world.clock.now())
    return claims.claim(world, "default", limit, worker_id="w", lease=lease)


def lease_of(job: Job) -> Lease:
    return Lease(job.number, job.token)


def tokens(world: World, **fields: Any) -> BudgetPeriod:
    return budgets.get(world, "llm", "tokens", **fields).period


def used(world: World, **fields: Any) -> tuple[int, int]:
    """What is settled and what is reserved; and everything adds up."""
    assert world.store.read(check) == []
    period = tokens(world, **fields)
    return period.settled, period.reserved


def set_tokens(world: World, capacity: int | None, **fields: Any) -> None:
    budgets.set_budget(world, "llm", "tokens", capacity, actor="tom", reason="for the test", **fields)


# -- start -------------------------------------------------------------------------------------------------------------


def test_an_attempt_reserves_its_cost_when_it_starts_and_pays_when_it_ends(world: World) -> None:
    set_tokens(world, 1000)
    [job] = start(world, costly(100))
    assert used(world) == (0, 100)

    endings.ack(world, job.id, job.token)

    assert used(world) == (100, 0)


def test_jobs_without_room_wait_for_the_refill_without_a_run_or_an_attempt(world: World) -> None:
    set_tokens(world, 250)

    started = start(world, *(costly(100) for _ in range(4)))

    assert len(started) == 2
    waiting = jobs.find(world, Filter(states=("queued",)))
    assert len(waiting) == 2
    for job in waiting:
        assert (job.state, job.attempt, attempts(world.store, job.number)) == ("queued", 0, [])
        assert MIDNIGHT <= job.run_at < MIDNIGHT + SPREAD
        assert job.last_error == "budget_empty: llm:tokens:day has 50 left of 250, and 100 are needed"
    assert waiting[0].run_at != waiting[1].run_at, "they come back spread"
    assert used(world) == (0, 200)
    assert tokens(world).put_backs == 2


def test_a_new_day_is_a_new_row_with_the_capacity_of_the_budget(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 100)
    [first] = start(world, costly(100), costly(100), lease=LONG)
    clock.advance(MIDNIGHT + SPREAD - NOON)

    [second] = start(world)
    assert used(world) == (0, 100)
    endings.ack(world, first.id, first.token)

    assert used(world) == (0, 100), "the first one is paid from the day in which it started"
    endings.ack(world, second.id, second.token)
    history = budgets.history(world, "llm", "tokens")
    assert [(each.settled, each.reserved, each.put_backs) for each in history] == [(100, 0, 0), (100, 0, 1)]


def test_a_budget_that_does_not_exist_is_unlimited_and_one_without_capacity_counts(world: World) -> None:
    assert len(start(world, costly(10**9))) == 1

    set_tokens(world, None)
    [job] = start(world, costly(10**9))
    endings.ack(world, job.id, job.token)

    assert used(world) == (10**9, 0)


def test_a_job_starts_only_if_all_its_budgets_have_room(world: World) -> None:
    set_tokens(world, 1000)
    budgets.set_budget(world, "llm", "calls", 1, period="month")
    budgets.set_budget(world, "llm/ada", "tokens", 50)

    assert len(start(world, costly(60, agent="ada"))) == 0, "the agent's own budget is too small"
    assert len(start(world, costly(60), costly(60))) == 1, "one call a month"

    assert used(world) == (0, 60)
    assert [each.run_at >= NOON + timedelta(days=2) for each in jobs.find(world) if each.state == "queued"] == [
        True, False,
    ]  # fmt: skip


def test_an_owners_budget_is_its_own(world: World) -> None:
    set_tokens(world, 100, owner="alice")
    tenants = [costly(100, owner="alice"), costly(100, owner="alice"), costly(100, owner="bob"), costly(100)]
    put(world.store, *tenants)

    own = [claims.pull(world, worker_id="w", owner=owner) for owner in ("alice", "bob")]
    house = claims.pull(world, worker_id="w")

    assert [len(each) for each in (*own, house)] == [1, 1, 1]
    assert used(world, owner="alice") == (0, 100)


def test_a_tenants_job_draws_on_the_budget_of_its_handler_whatever_it_says_itself(world: World) -> None:
    """The stored definition decides, so that no door is a way past it."""
    draws_on = JobBudget("llm", {"calls": 1, "tokens": 100})
    stored = StoredDefinition("greet", "default", True, "shop", NOON, "system/start", budget=draws_on)
    world.store.transact(lambda tx: tx.definitions.put(stored))
    set_tokens(world, 150, owner="alice")
    put(world.store, a_new_job(owner="alice"), costly(1, name="other", owner="alice"), a_new_job())

    started = claims.pull(world, worker_id="w")

    assert [(job.owner, job.budget) for job in started] in (
        [("alice", draws_on), ("system", None)], [("system", None), ("alice", draws_on)],
    )  # fmt: skip
    assert used(world, owner="alice") == (0, 100)
    [waiting] = jobs.find(world, Filter(states=("queued",)))
    assert (waiting.budget, waiting.attempt) == (draws_on, 0)
    [own] = [job for job in started if job.owner == "alice"]
    endings.ack(world, own.id, own.token)
    assert used(world, owner="alice") == (100, 0)


def test_many_workers_never_spend_more_than_there_is(world: World, open_another: Callable[[], SqlStore]) -> None:
    set_tokens(world, 500)
    put(world.store, *(costly(100) for _ in range(24)))
    worlds = [replace(world, store=open_another()) for _ in range(4)]

    def work(each: World) -> int:
        done = 0
        for _ in range(6):
            for job in claims.claim(each, "default", 2, worker_id="w", lease=LEASE):
                endings.settle(each, [(job, Outcome("succeeded", spent={"tokens": 90}))])
                done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(work, worlds))

    assert used(world) == (90 * done, 0)
    assert done == 5, "450 are spent, and the next reservation of 100 has no room"


# -- end ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "paid"),
    [
        (Outcome("succeeded"), 100),
        (Outcome("failed", error="no"), 100),
        (Outcome("timed_out", error="no"), 100),
        (Outcome("snoozed"), 100),
        (Outcome("cancelled"), 100),
        (Outcome("released"), 100),
        (Outcome("succeeded", spent={"tokens": 30}), 30),
        (Outcome("released", spent={}), 0),
    ],
    ids=str,
)
def test_every_ending_settles_the_reservation(world: World, outcome: Outcome, paid: int) -> None:
    """What did not begin says so by a report of nothing; everything else may have been spent."""
    set_tokens(world, 1000)
    [job] = start(world, costly(100))

    assert endings.settle(world, [(job, outcome)])[job.id] is not None

    assert used(world) == (paid, 0)


def test_lost_counts_as_spent(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 1000)
    start(world, costly(100))
    clock.advance(2 * LEASE)

    assert len(endings.lose_expired(world)) == 1

    assert used(world) == (100, 0)


def test_who_dies_between_claim_and_admission_has_spent_nothing(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 1000)
    put(world.store, costly(100))
    world.store.claim(Claim("default", 1, "w", LEASE), now=NOON)
    clock.advance(2 * LEASE)

    assert len(endings.lose_expired(world)) == 1

    assert used(world) == (0, 0)


def test_a_late_holder_pays_nothing_twice(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 1000)
    [late] = start(world, costly(100))
    clock.advance(2 * LEASE)
    endings.lose_expired(world)
    [heir] = start(world)

    with pytest.raises(LeaseLost):
        endings.ack(world, late.id, late.token)
    assert used(world) == (100, 100)
    endings.ack(world, heir.id, heir.token)

    assert used(world) == (200, 0)
    assert endings.settle(world, [(heir, Outcome("succeeded"))]) == {heir.id: None}
    assert used(world) == (200, 0)


def test_a_report_above_the_reservation_is_charged_in_full_told_and_blocks_the_next(world: World) -> None:
    set_tokens(world, 150)
    [job] = start(world, costly(100))

    endings.settle(world, [(job, Outcome("succeeded", spent={"tokens": 170}))])

    assert used(world) == (170, 0)
    assert tokens(world).overdrawn == 20
    [(_, entry)] = world.store.read(lambda tx: tx.audit.find(object_id=None, limit=9, before=None, verb="overdrawn"))
    assert (entry.object_type, entry.object_id, entry.evidence) == ("budget", "llm:tokens:day", (f"run:{job.run_id}",))
    assert start(world, costly(1)) == []


# -- spend -------------------------------------------------------------------------------------------------------------


def test_an_attempt_spends_from_what_it_reserved_and_then_from_the_budget(world: World) -> None:
    set_tokens(world, 1000)
    [job] = start(world, costly(100))

    assert spend(world, lease_of(job), {"tokens": 60}, key="a") == Spending(True)
    assert used(world) == (0, 100)
    assert spend(world, lease_of(job), {"tokens": 60}, key="b").granted
    assert used(world) == (0, 120)
    report(world, lease_of(job), {"tokens": 45}, key="a")
    assert used(world) == (45, 60)
    endings.ack(world, job.id, job.token)

    assert used(world) == (105, 0), "b was not reported, so it counts in full"


def test_what_the_attempt_as_a_whole_reserved_and_no_step_used_is_free_again(world: World) -> None:
    set_tokens(world, 1000)
    [job] = start(world, costly(500))
    spend(world, lease_of(job), {"tokens": 60}, key="a")

    endings.ack(world, job.id, job.token)

    assert used(world) == (60, 0)


def test_a_report_about_the_whole_attempt_is_settled_when_it_ends(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 1000)
    done, lost = start(world, costly(500), costly(500))
    report(world, lease_of(done), {"tokens": 300})
    report(world, lease_of(lost), {"tokens": 300})
    assert used(world) == (0, 1000)

    endings.ack(world, done.id, done.token)
    clock.advance(2 * LEASE)
    endings.lose_expired(world)

    assert used(world) == (800, 0)


def test_a_report_about_a_unit_that_was_not_reserved_counts(world: World) -> None:
    budgets.set_budget(world, "llm", "micros", 1000)
    [job] = start(world, costly(500))

    report(world, lease_of(job), {"micros": 70})
    endings.ack(world, job.id, job.token)

    assert budgets.get(world, "llm", "micros").period.settled == 70


def test_an_ending_that_reports_what_was_not_reserved_is_charged(world: World) -> None:
    [free, early] = start(world, costly(0), costly(5))
    set_tokens(world, 1000)
    endings.settle(world, [(free, Outcome("succeeded", spent={"tokens": 30}))])
    endings.settle(world, [(early, Outcome("failed", error="no", spent={"tokens": 40}))])

    assert used(world) == (70, 0)


def test_the_same_key_is_reserved_once_and_means_the_same(world: World) -> None:
    set_tokens(world, 1000)
    [job] = start(world, costly(0))
    for _ in range(3):
        assert spend(world, lease_of(job), {"tokens": 60}, key="a").granted
    assert used(world) == (0, 60)
    for _ in range(3):
        report(world, lease_of(job), {"tokens": 50}, key="a")
    assert used(world) == (50, 0)
    assert spend(world, lease_of(job), {"tokens": 60}, key="a").granted, "the answer had been lost"
    assert used(world) == (50, 0)
    report(world, lease_of(job), {"tokens": 55}, key="a")
    assert used(world) == (55, 0)

    with refused(Conflict, "spending_key_used", key="a", unit="tokens", amount=60):
        spend(world, lease_of(job), {"tokens": 61}, key="a")


def test_an_empty_budget_says_when_to_come_back_and_reserves_nothing(world: World) -> None:
    set_tokens(world, 200)
    budgets.set_budget(world, "llm", "micros", 1000)
    job, _ = start(world, costly(80), costly(100))

    answer = spend(world, lease_of(job), {"tokens": 110, "micros": 10}, key="a")

    assert not answer.granted
    assert answer.wait is not None
    assert MIDNIGHT <= NOON + answer.wait < MIDNIGHT + SPREAD
    assert answer.reason == "budget_empty: llm:tokens:day has 20 left of 200, and 30 are needed"
    assert used(world) == (0, 180)
    assert budgets.get(world, "llm", "micros").period.reserved == 0


def test_an_attempt_that_found_its_budget_empty_pays_for_no_more_than_it_was_granted(world: World) -> None:
    set_tokens(world, 200)
    job, other = start(world, costly(80), costly(100))
    assert not spend(world, lease_of(job), {"tokens": 110}, key="a").granted
    assert used(world) == (0, 180)

    endings.settle(world, [(job, Outcome("snoozed", delay=timedelta(hours=9)))])

    assert used(world) == (0, 100)
    assert not start(world), "it needs 110 to begin again, and there are 100"
    endings.settle(world, [(other, Outcome("succeeded", spent={"tokens": 90}))])
    assert len(start(world)) == 1, "now there are"


def test_what_never_fits_is_refused_and_not_waited_for(world: World) -> None:
    set_tokens(world, 100)
    [job] = start(world, costly(0))

    with refused(NotAllowed, "budget_too_small", amount=101, capacity=100):
        spend(world, lease_of(job), {"tokens": 101}, key="a")


def test_a_late_holder_can_neither_spend_nor_report(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 1000)
    [late] = start(world, costly(100))
    clock.advance(2 * LEASE)
    endings.lose_expired(world)

    with pytest.raises(LeaseLost):
        spend(world, lease_of(late), {"tokens": 60}, key="a")
    with pytest.raises(LeaseLost):
        report(world, lease_of(late), {"tokens": 60})
    assert used(world) == (100, 0)


def test_spending_in_the_next_period_is_reserved_there(world: World, clock: VirtualClock) -> None:
    set_tokens(world, 100)
    [job] = start(world, costly(100), lease=LONG)
    clock.advance(timedelta(days=1))

    assert spend(world, lease_of(job), {"tokens": 150}, key="a").granted
    assert used(world) == (0, 50)
    report(world, lease_of(job), {"tokens": 120}, key="a")

    assert [each.settled for each in budgets.history(world, "llm", "tokens")] == [20, 100]
    endings.ack(world, job.id, job.token)
    assert used(world) == (20, 0)


def test_who_spends_without_a_budget_is_told_so(world: World) -> None:
    [plain, paying] = start(world, a_new_job(), costly(1))

    with refused(InvalidInput, "spending_without_budget", job_id=plain.id):
        spend(world, lease_of(plain), {"tokens": 60}, key="a")
    assert spend(world, lease_of(paying), {"tokens": 10**9}, key="a").granted, "there is no such budget: no limit"
    set_tokens(world, 10)
    with refused(InvalidInput, "spending_unknown", key="b"):
        report(world, lease_of(paying), {"tokens": 60}, key="b")


# -- the room ----------------------------------------------------------------------------------------------------------


def test_raising_a_budget_lets_in_at_once_what_waits_for_it(world: World) -> None:
    set_tokens(world, 100)
    assert len(start(world, costly(100), costly(100), costly(100))) == 1
    heard: list[str] = []
    unsubscribe = world.store.subscribe(heard.append)

    set_tokens(world, 200)

    unsubscribe()
    assert "default" in heard
    assert len(start(world)) == 1
    assert tokens(world).put_backs == 2, "only as many were let in as there is room for"


def test_a_capacity_that_is_lowered_is_overdrawn_and_blocks(world: World) -> None:
    set_tokens(world, 500)
    [job] = start(world, costly(300))

    set_tokens(world, 200)

    assert used(world) == (0, 300)
    assert tokens(world).overdrawn == 100
    assert start(world, costly(1)) == []
    endings.ack(world, job.id, job.token)
    assert used(world) == (300, 0)


def test_a_correction_counts_and_leaves_an_entry(world: World) -> None:
    set_tokens(world, 500)
    budgets.adjust(world, "llm", "tokens", 400, actor="tom", reason="spent by hand")
    assert used(world) == (400, 0)
    assert start(world, costly(101)) == []

    budgets.adjust(world, "llm", "tokens", -100, actor="tom", reason="refund")

    assert used(world) == (300, 0)
    assert len(start(world)) == 1, "what waited was let in"
    found = world.store.read(lambda tx: tx.audit.find(object_id="llm:tokens:day", limit=9, before=None))
    assert [(entry.verb, entry.actor, entry.reason) for _, entry in found] == [
        ("adjust_budget", "tom", "refund"), ("adjust_budget", "tom", "spent by hand"),
        ("set_budget", "tom", "for the test"),
    ]  # fmt: skip
    with refused(InvalidInput, "adjust_below_zero"):
        budgets.adjust(world, "llm", "tokens", -301, reason="too much")
    with refused(InvalidInput, "adjust_reason_missing"):
        budgets.adjust(world, "llm", "tokens", 1, reason=" ")
    with refused(NotFound, "budget_unknown", budget="llm:micros:day"):
        budgets.adjust(world, "llm", "micros", 1, reason="no such thing")


def test_budgets_are_listed_in_order_page_by_page(world: World) -> None:
    for owner in ("system", "alice"):
        for name in ("llm", "llm/ada", "mail"):
            budgets.set_budget(world, name, "calls", 5, owner=owner)

    first = budgets.find(world, limit=4)
    last = first[-1].budget
    rest = budgets.find(world, limit=4, after=(last.owner, last.name, last.agent, last.unit, last.period))

    listed = [(each.budget.owner, each.budget.name, each.budget.agent) for each in (*first, *rest)]
    assert listed == sorted(listed)
    assert len(set(listed)) == 6
    assert [each.budget.id for each in budgets.find(world, owner="alice", name="mail")] == ["mail:calls:day"]


@pytest.mark.parametrize("wrong", [{"unit": "euros"}, {"period": "week"}, {"capacity": -1}, {"capacity": 2**53}])
def test_what_is_no_budget_is_refused(world: World, wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"unit": "calls", "capacity": 1, "period": "day"} | wrong
    with pytest.raises(InvalidInput):
        budgets.set_budget(world, "llm", fields["unit"], fields["capacity"], period=fields["period"])
    assert budgets.find(world) == []


# -- leftovers ---------------------------------------------------------------------------------------------------------


def test_a_reservation_that_nothing_ends_any_more_counts_as_spent_once(world: World) -> None:
    """A process of an earlier release ended the job, without the rule."""
    set_tokens(world, 250)
    forgotten, held = start(world, costly(100), costly(100), costly(100))
    endings.ack(replace(world, rules=()), forgotten.id, forgotten.token)
    [waiting] = jobs.find(world, Filter(states=("queued",)))
    jobs.cancel(world, waiting.id)
    assert used(world) == (0, 200)
    waits = world.store.read(lambda tx: tx.budgets.leftovers(limit=9))
    assert [(each.job, each.state) for each in waits] == [
        (forgotten.number, "reserved"), (waiting.number, "waiting"),
    ]  # fmt: skip

    assert settle_leftovers(world) == 2
    assert settle_leftovers(world) == 0

    assert used(world) == (100, 100)
    endings.ack(world, held.id, held.token)
    assert used(world) == (200, 0)


def test_the_checker_finds_what_does_not_add_up(world: World) -> None:
    set_tokens(world, 1000)
    [job] = start(world, costly(100))
    period = tokens(world)
    stray = Reservation(99, 1, "", period.budget, period.starts_at, 7, at=NOON)
    world.store.transact(lambda tx: tx.budgets.add([stray]))
    assert [each.problem for each in world.store.read(check)] == ["100 reserved, but reservations add up to 107"]

    world.store.transact(lambda tx: tx.budgets.remove([stray]))
    assert world.store.read(check) == []
    assert job.state == "running"


def test_the_database_itself_refuses_to_spend_what_is_not_there(world: World) -> None:
    """A mistake of ours cannot get past it: the check of the table stands behind the code."""
    set_tokens(world, 100)
    before = tokens(world)

    with pytest.raises(Exception, match=r"(?i)check|constraint"):
        world.store.transact(lambda tx: tx.budgets.save({before.key: (before, replace(before, reserved=101))}))

    assert used(world) == (0, 0)


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_what_an_attempt_did_not_use_lets_in_those_who_wait(world: World) -> None:
    set_tokens(world, 300)
    first, *_ = start(world, costly(200), costly(200), costly(200))

    endings.settle(world, [(first, Outcome("succeeded", spent={"tokens": 100}))])

    assert len(start(world)) == 1, "200 are free again: one of the two that wait"
    assert used(world) == (100, 200)


def test_why_a_job_waits_is_told_with_figures(world: World) -> None:
    set_tokens(world, 100)
    budgets.set_budget(world, "llm", "calls", 1, period="ever")
    start(world, costly(80))
    put(world.store, costly(80), costly(101))
    start(world)
    needs_more, never = jobs.find(world, Filter(states=("queued",)))[::-1]

    told = [(each.reason, dict(each.facts)) for each in why(world, needs_more)]
    assert told[:2] == [
        ("budget_empty", {"budget": "llm:tokens:day", "amount": 80, "capacity": 100, "left": 20,
                          "run_at": iso(needs_more.run_at)}),
        ("budget_empty_for_good", {"budget": "llm:calls:ever", "amount": 1, "capacity": 1, "left": 0}),
    ]  # fmt: skip
    assert why(world, never)[0].reason == "budget_never_enough"
    assert {each.code for each in why(world, never)[:2]} == {"budget"}
    for each in (*why(world, needs_more), *why(world, never)):
        assert each.in_words("en") != each.in_words("zh") != ""

    set_tokens(world, 500)
    assert "budget_has_room" not in [each.reason for each in why(world, jobs.get(world, needs_more.id))]
