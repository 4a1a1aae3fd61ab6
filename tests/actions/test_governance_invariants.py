"""G1 to G10: what must hold for every governed object, each by a test of its name (governance.md 5)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.budgets.budgets import get as get_budget
from horae.actions.budgets.budgets import set_budget
from horae.actions.governance import act_gate, lives, queries, verdicts
from horae.actions.governance.decisions import decide
from horae.actions.governance.evidence import add_evidence
from horae.actions.governance.invariants import check_objects
from horae.actions.governance.proposals import propose, propose_many
from horae.actions.governance.verdicts import Given
from horae.actions.jobs import claims, endings, jobs
from horae.actions.rules import job_rules
from horae.core.access.callers import Caller
from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject
from horae.core.governance.proposals import Proposal, content_digest
from horae.core.jobs.job import Job
from horae.errors import IllegalTransition, NotAllowed
from horae.ports.world import World
from horae.testing.clock import LoadedDice, VirtualClock
from tests.support.templates import open_in_memory

OWNER = "alice"
DAY = timedelta(days=1)
LEASE = timedelta(seconds=30)
BOB = Caller(OWNER, frozenset({"tasks"}), "agent/bob", agent="bob")
CAROL = Caller(OWNER, frozenset({"review", "admin"}), "user/carol")


@pytest.fixture
def world(clock: VirtualClock) -> Iterator[World]:
    store, dice = open_in_memory(), LoadedDice()
    made = World(store, clock, dice, rules=job_rules(dice))
    yield made
    assert [str(each) for each in check_objects(made)] == []
    store.close()


def a_memory(world: World, content: str = "Ann likes tea", kind: Any = "memory", **fields: Any) -> GovernedObject:
    given = {"subject": "Ann", "evidence": ["chat:1"], "agent": "bob"} | fields
    return propose(world, Proposal(kind, content, **given), owner=OWNER, caller=BOB).object


def now_of(world: World, it: GovernedObject) -> GovernedObject:
    return queries.get(world, it.id, owner=OWNER, kind=it.kind).object


def due(world: World) -> list[Job]:
    return claims.claim(world, "governance", 100, worker_id="w1", lease=LEASE)


def conclude_due(world: World, verdict: str | None = None) -> int:
    found = due(world)
    for job in found:
        endings.ack(world, job.id, job.token, result=None if verdict is None else {"verdict": verdict})
    return len(found)


def live_through(world: World, clock: VirtualClock, span: timedelta, verdict: str | None = None) -> int:
    """Let time go by, from one due action to the next; return how many there were."""
    end, done = clock.now() + span, 0
    while (next_at := world.store.peek(["governance"]).next_due_at) is not None and next_at <= end:
        clock.move_to(max(next_at, clock.now()))
        done += conclude_due(world, verdict)
    clock.move_to(end)
    return done


@pytest.mark.parametrize("kind", list(MACHINES))
def test_g1_a_verb_that_no_arrow_allows_is_refused_and_changes_nothing(world: World, kind: str) -> None:
    it = a_memory(world, kind=kind)
    lives.retract(world, Given(it.id, OWNER, CAROL, kind=kind))
    before = now_of(world, it)
    for verb in (lives.use, lives.archive, lives.reinstate, verdicts.contest, verdicts.clear, verdicts.reject):
        with pytest.raises(IllegalTransition):
            verb(world, Given(it.id, OWNER, CAROL, kind=kind))
    assert now_of(world, it) == before


def test_g2_reading_changes_no_time_of_verification(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    conclude_due(world)
    before = now_of(world, it)
    clock.advance(3 * DAY)
    queries.get(world, it.id, owner=OWNER)
    queries.recall(world, "Ann", owner=OWNER)
    queries.explain(world, it.id, owner=OWNER)
    lives.use(world, Given(it.id, OWNER, BOB))
    assert now_of(world, it).verified_at == before.verified_at


def test_g3_looks_spend_nothing_beyond_the_budget_of_a_day(world: World, clock: VirtualClock) -> None:
    """Also where half of the workers die: lost counts as spent."""
    set_budget(world, "verify.memory", "calls", 5, owner=OWNER)
    propose_many(
        world, [Proposal("memory", f"fact {n}", subject="Ann", evidence=("chat:1",)) for n in range(12)],
        owner=OWNER, caller=BOB,
    )  # fmt: skip
    clock.advance(timedelta(hours=1))  # a bulk is spread
    for n, job in enumerate(due(world)):
        if n % 2:
            endings.ack(world, job.id, job.token, result={"verdict": "confirmed"})
    clock.advance(2 * LEASE)
    endings.lose_expired(world)
    assert due(world) == []
    used = get_budget(world, "verify.memory", "calls", owner=OWNER).period
    assert (used.settled, used.reserved, used.capacity) == (5, 0, 5)

    clock.advance(DAY)
    assert len(due(world)) == 5, "a new day is a new period"


def test_g4_what_cannot_be_known_is_checked_three_times_in_its_life(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    conclude_due(world, "unknowable")
    assert now_of(world, it).is_unknowable
    assert live_through(world, clock, 3000 * DAY, "inconclusive") == 3
    after = now_of(world, it)
    assert (after.reinstate_checks, after.next_action, after.job) == (3, None, None)

    add_evidence(world, it.id, ["chat:2"], owner=OWNER, caller=BOB)
    live_through(world, clock, 3000 * DAY, "unknowable")
    assert now_of(world, it).reinstate_checks == 3


def test_g5_an_object_has_one_live_job_whatever_is_asked_of_it(world: World) -> None:
    it = a_memory(world)
    for verb in (verdicts.verify_now, verdicts.contest, verdicts.verify_now):
        verb(world, Given(it.id, OWNER, CAROL))
    add_evidence(world, it.id, ["chat:2"], owner=OWNER, caller=BOB)
    assert len(due(world)) == 1
    verdicts.verify_now(world, Given(it.id, OWNER, CAROL))
    assert due(world) == []


def test_g6_the_next_action_is_due_when_its_job_is_after_every_verb(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    for verdict in ("inconclusive", "confirmed", "inconclusive", "refuted", "confirmed"):
        live_through(world, clock, 20 * DAY, verdict)
        after = now_of(world, it)
        assert after.job is not None
        assert jobs.get(world, f"job_{after.job}").run_at == after.next_action_at


def test_g7_no_action_of_high_risk_cites_what_was_not_verified_in_time(world: World, clock: VirtualClock) -> None:
    it = a_memory(world, risk="high")
    verdicts.conclude(world, Given(it.id, OWNER, CAROL), "confirmed")
    lives.use(world, Given(it.id, OWNER, BOB))
    name = f"memory:{it.id}"

    def reasons() -> Any:
        return world.store.read(lambda tx: act_gate.objections(tx, OWNER, [name], clock.now()))

    assert list(reasons()) == []
    clock.advance(15 * DAY)
    assert list(reasons()) != []
    assert decide(world, action="pay", owner=OWNER, cites=[name], risk="high").decision.outcome != "executed"


def test_g8_what_was_archived_comes_back_from_its_versions_as_the_audit_has_seen_it(
    world: World, clock: VirtualClock
) -> None:
    it = a_memory(world, expires_at=clock.now() + DAY)
    live_through(world, clock, 40 * DAY)
    assert now_of(world, it).status == "archived"
    view = queries.get(world, it.id, owner=OWNER)
    history = queries.history(world, it.id, owner=OWNER)
    proposed = next(entry for _, entry in history.entries if entry.verb == "proposed")
    first = history.versions[-1]

    assert view.content == first.content == "Ann likes tea"
    assert content_digest(first.content_key or "", first.content) == proposed.after["content_digest"]
    assert lives.reinstate(world, Given(it.id, OWNER, CAROL)).status == "stale_uncertain"


@pytest.mark.slow
def test_g9_no_more_is_archived_on_a_day_than_its_cap(world: World, clock: VirtualClock) -> None:
    many = [Proposal("memory", f"fact {n}", subject="Ann", expires_at=clock.now() + DAY) for n in range(130)]
    made = propose_many(world, many, owner=OWNER, caller=BOB)
    clock.advance(2 * DAY)
    while conclude_due(world):
        pass
    archived = [each for each in made if now_of(world, each.object).status == "archived"]
    assert len(archived) == 100
    clock.advance(DAY)
    while conclude_due(world):
        pass
    assert all(now_of(world, each.object).status == "archived" for each in made)


def test_g10_every_attempt_at_an_action_has_the_same_key(world: World, clock: VirtualClock) -> None:
    it = a_memory(world)
    keys = set()
    for _ in range(3):
        (job,) = due(world)
        keys.add(job.key)
        endings.fail(world, job.id, job.token, "no", retry_delay=timedelta(0))
    assert keys == {f"memory:{it.id}:1"}
    assert now_of(world, it).stalled
    clock.advance(8 * DAY)
    (job,) = due(world)
    assert job.key not in keys, "another action is another key"


def test_a_link_downwards_a_cycle_and_a_stale_version_change_nothing(world: World) -> None:
    first, second = a_memory(world), a_memory(world, "Ann likes coffee")
    lives.supersede(world, Given(first.id, OWNER, CAROL), second.id)
    before = now_of(world, second)
    with pytest.raises(Exception, match="cycle"):
        lives.supersede(world, Given(second.id, OWNER, CAROL), first.id)
    with pytest.raises(Exception, match="version"):
        verdicts.contest(world, Given(second.id, OWNER, CAROL, expected_version=99))
    assert now_of(world, second) == before


@pytest.mark.parametrize("back", [timedelta(hours=1), 400 * DAY])
def test_a_clock_that_goes_back_breaks_no_plan(world: World, clock: VirtualClock, back: timedelta) -> None:
    used = a_memory(world)
    conclude_due(world, "confirmed")
    looked_at = a_memory(world, "Ann likes rye")
    (job,) = due(world)
    earlier = World(world.store, VirtualClock(clock.now() - back), LoadedDice(1), rules=world.rules)

    endings.ack(earlier, job.id, job.token, result={"verdict": "confirmed"})
    lives.use(earlier, Given(used.id, OWNER, BOB))

    assert [str(each) for each in check_objects(world)] == []
    assert (now_of(world, used).status, now_of(world, looked_at).status) == ("active", "verified")
    assert due(earlier) == []
    assert live_through(world, clock, 15 * DAY, "confirmed") >= 2


def test_a_clock_that_leaps_years_ahead_does_what_is_due_once_and_plans_from_there(
    world: World, clock: VirtualClock
) -> None:
    it = a_memory(world)
    conclude_due(world, "confirmed")
    clock.advance(2000 * DAY)

    assert [conclude_due(world, "confirmed") for _ in range(3)] == [1, 0, 0]
    assert now_of(world, it).next_action_at == clock.now() + 28 * DAY


def test_a_look_beyond_the_budget_of_an_episode_needs_a_person(world: World) -> None:
    it = a_memory(world, kind="cognition")
    for _ in range(2):
        verdicts.verify_now(world, Given(it.id, OWNER, CAROL))
        conclude_due(world, "inconclusive")
    with pytest.raises(NotAllowed):
        verdicts.verify_now(world, Given(it.id, OWNER, BOB))
