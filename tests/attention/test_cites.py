"""The act gate: no high-risk action relies on an object that is not active and verified lately (G7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from horae.actions.governance.decisions import decide
from horae.actions.governance.reviews import answer_review
from horae.app import Horae
from horae.attention import Act, Attention, Control, Done, Proceed, Turn
from horae.core.access.callers import Caller
from horae.core.attention.facts import FactKind
from horae.core.governance.objects import GovernedObject
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.testing.clock import VirtualClock
from tests.support.governed import keep, now_of

DAY = timedelta(days=1)
CAROL = Caller("system", frozenset({"review"}), "user/carol")


class Agent:
    """An agent whose tasks pay, relying on what their payload cites."""

    def __init__(self, app: Horae, clock: VirtualClock) -> None:
        self.clock, self.app = clock, app
        self.lane = Attention("payer", app)
        self.paid: list[str] = []
        self.asks: frozenset[str] = frozenset()
        self.lane.control(lambda: Control(must_confirm=self.asks, confirm_timeout=DAY))

        @self.lane.action(effect="once")
        def pay(step: Any) -> None:
            self.paid.append(step.key)

        @self.lane.cognition("pay")
        def think(turn: Turn) -> Any:
            if turn.facts.last("action_ok"):
                return Done("paid")
            granted = turn.facts.last("confirmed")
            if granted is not None:
                return Proceed(granted.grant)
            over: tuple[FactKind, ...] = ("denied", "timed_out", "action_failed", "grant_refused")
            if any(turn.facts.last(each) for each in over):
                return Done("not paid")
            return Act("pay", cites=turn.payload["cites"])

    def pays(self, *cites: str) -> None:
        self.lane.add("pay", {"cites": list(cites)})
        self.lane.run()

    @property
    def held(self) -> list[Any]:
        return [wait for _, waits in self.lane.snapshot().waiting for wait in waits]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def agent(database_url: str, clock: VirtualClock) -> Iterator[Agent]:
    engine = create_store_engine(database_url)
    migrate(engine)
    engine.dispose()
    with Horae(database_url, clock=clock) as app:
        yield Agent(app, clock)


def change(agent: Agent, it: GovernedObject, **fields: Any) -> GovernedObject:
    before = now_of(agent.app.world, it)
    after = replace(before, version=before.version + 1, **fields)
    agent.app.world.store.transact(lambda tx: tx.objects.save([(before, after)]))
    return after


def stored(agent: Agent, name: str = "mem_1", **fields: Any) -> GovernedObject:
    (it,) = keep(agent.app.world, name, owner="system", **{"risk": "high", **fields})
    return it


def test_an_act_on_what_is_active_and_just_verified_is_done_at_once(agent: Agent) -> None:
    stored(agent)
    agent.pays("memory:mem_1")
    assert (len(agent.paid), agent.held) == (1, [])


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"state": "stale"}, "memory:mem_1 is stale, not active"),
        ({"state": "verified"}, "memory:mem_1 is verified, not active"),
        ({"contested": True}, "memory:mem_1 is contested"),
        ({"verified_at": None}, "memory:mem_1 was never verified"),
    ],
)
def test_an_act_on_doubtful_ground_of_high_risk_is_held_and_says_why(agent: Agent, fields: Any, why: str) -> None:
    """G7."""
    stored(agent, **fields)
    agent.pays("memory:mem_1")

    (wait,) = agent.app.attention.confirmations("payer")
    assert (agent.paid, wait.why, wait.cites, wait.action) == ([], (why,), ("memory:mem_1",), "pay")
    (parked,) = [line for line in agent.lane.journal() if line.cause == "parked"]
    assert parked.details["why"] == [why]


def test_what_was_verified_too_long_ago_is_held(agent: Agent) -> None:
    stored(agent)
    agent.clock.advance(14 * DAY)
    agent.pays("memory:mem_1")
    assert len(agent.paid) == 1
    agent.clock.advance(timedelta(microseconds=1))
    agent.pays("memory:mem_1")
    assert (len(agent.paid), len(agent.held)) == (1, 1)


def test_lower_risks_are_not_held(agent: Agent) -> None:
    stored(agent, state="stale", risk="medium")
    agent.pays("memory:mem_1")
    assert len(agent.paid) == 1


def test_a_held_act_is_done_once_its_ground_is_verified(agent: Agent) -> None:
    it = stored(agent, state="stale")
    agent.pays("memory:mem_1")
    agent.lane.run()
    assert agent.paid == []

    change(agent, it, state="active", verified_at=agent.clock.now())
    agent.lane.run()

    assert (len(agent.paid), agent.held) == (1, [])
    assert agent.lane.verify().is_sound


def test_a_held_act_is_done_once_a_person_confirms_it(agent: Agent) -> None:
    stored(agent, state="stale")
    agent.pays("memory:mem_1")
    (wait,) = agent.held

    agent.lane.confirm(wait.number, True, actor="user/carol")
    agent.lane.run()

    assert len(agent.paid) == 1


def test_silence_is_no_permission(agent: Agent) -> None:
    stored(agent, state="stale")
    agent.pays("memory:mem_1")
    agent.clock.advance(DAY)
    agent.lane.run()
    assert (agent.paid, agent.held) == ([], [])


def test_a_grant_of_governance_is_void_when_its_ground_is_doubtful_again(agent: Agent) -> None:
    """Who comes late: verified, granted, and suspected before the agent used it."""
    it = stored(agent, state="stale")
    agent.pays("memory:mem_1")
    verified = change(agent, it, state="active", verified_at=agent.clock.now())
    seen: list[Any] = []

    @agent.lane.cognition("late")
    def think(turn: Turn) -> Any:
        granted = turn.facts.last("confirmed")
        if granted is not None and not seen:
            seen.append(granted.grant)
            change(agent, verified, state="quarantine")
            return Proceed(granted.grant)
        return Done() if seen else Act("pay", cites=["memory:mem_2"])

    agent.lane.run()
    paid = len(agent.paid)
    second = stored(agent, "mem_2", state="stale")
    agent.lane.add("late")
    agent.lane.run()
    verified = change(agent, second, state="active", verified_at=agent.clock.now())
    agent.lane.run()

    assert (paid, len(agent.paid), len(seen)) == (1, 1, 1)
    assert [line.cause for line in agent.lane.journal()].count("grant_refused") == 1


def test_what_needs_a_persons_word_gets_no_other(agent: Agent) -> None:
    it = stored(agent, state="stale")
    agent.asks = frozenset({"pay"})
    agent.pays("memory:mem_1")
    change(agent, it, state="active", verified_at=agent.clock.now())
    agent.lane.run()
    assert (agent.paid, len(agent.held)) == ([], 1)


def test_what_does_not_exist_cannot_be_cited(agent: Agent) -> None:
    keep(agent.app.world, "mem_9", owner="alice")
    agent.pays("memory:mem_9")
    assert (agent.paid, agent.held) == ([], [])
    assert [line.cause for line in agent.lane.journal()].count("step_refused") == 1


def test_a_decision_that_a_person_approved_covers_its_ground(agent: Agent) -> None:
    """An approved review makes a successor that the act gate accepts."""
    it = stored(agent, state="stale")
    world = agent.app.world
    made = decide(world, owner="system", action="pay", cites=["memory:mem_1"], actor="app/shop")
    agent.pays(f"decision:{made.decision.id}")
    assert (made.decision.outcome, agent.paid) == ("escalated", [])

    answer_review(world, str(made.review), "approve", owner="system", person=CAROL)
    agent.lane.run()
    agent.pays("memory:mem_1", f"decision:{made.decision.id}")

    assert len(agent.paid) == 2
    change(agent, it, state="quarantine")
    agent.pays(f"decision:{made.decision.id}")
    assert (len(agent.paid), len(agent.held)) == (2, 1)


def test_a_decision_that_was_rolled_back_or_not_granted_holds(agent: Agent) -> None:
    stored(agent)
    world = agent.app.world
    made = decide(world, owner="system", action="pay", cites=["memory:mem_1"], actor="app/shop").decision
    agent.pays(f"decision:{made.id}")
    assert len(agent.paid) == 1

    world.store.transact(lambda tx: tx.decisions.save(replace(made, rolled_back_at=agent.clock.now())))
    agent.pays(f"decision:{made.id}")

    (wait,) = agent.app.attention.confirmations("payer")
    assert (len(agent.paid), wait.why) == (1, (f"decision:{made.id} was rolled back",))


def test_a_held_act_asks_for_a_verification_of_its_ground(agent: Agent) -> None:
    it = stored(agent, state="stale")
    agent.pays("memory:mem_1")

    asked = now_of(agent.app.world, it)
    assert (asked.next_action, asked.next_action_at, asked.job is not None) == ("verify", agent.clock.now(), True)
    job = agent.app.get(f"job_{asked.job}")
    assert (job.object_id, job.action, job.run_at) == ("mem_1", "verify", agent.clock.now())
