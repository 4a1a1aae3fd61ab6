"""The verbs of decisions: what an action comes to, by what it rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from horae.actions.governance import personas
from horae.actions.governance.decisions import decide, find_decisions, get_decision
from horae.core.governance.rollbacks import Rollback
from horae.errors import HoraeError, InvalidInput, NotFound
from horae.ports.world import World
from tests.support.governed import CAROL, OWNER, entries, keep
from tests.support.refusals import refused

PAY: Any = {"owner": OWNER, "action": "pay 40", "actor": "token/6f1c", "agent": "planner"}


@pytest.mark.parametrize(
    ("state", "risk", "outcome"),
    [
        ("active", "low", "executed"), ("active", "medium", "executed"), ("active", "high", "limited"),
        ("stale", "low", "limited"), ("stale_uncertain", "medium", "limited"), ("stale", "high", "escalated"),
        ("rejected_poisoned", "low", "abstained"), ("rejected_poisoned", "high", "abstained"),
    ],
)  # fmt: skip
def test_a_decision_is_kept_with_gates_cites_reason_and_entry(
    world: World, state: str, risk: Any, outcome: str
) -> None:
    keep(world, "mem_1", state=state, risk="low")

    made = decide(world, cites=["memory:mem_1"], risk=risk, correlation="thread-7", reason="the customer asked", **PAY)

    kept = made.decision
    assert (kept.outcome, kept.risk, kept.agent, kept.action) == (outcome, risk, "planner", "pay 40")
    assert kept.reason
    assert set(kept.gates) == {"persona", "cognition", "risk", "hits", "contested", "rollback_open"}
    assert get_decision(world, kept.id, owner=OWNER) == replace(made, review=None)
    entry = next(each for each in entries(world, object_type="decision") if each.verb == "decide")
    assert (entry.event_kind, entry.decision, entry.risk, entry.correlation) == (
        "decision_gate", kept.id, risk, "thread-7",
    )  # fmt: skip
    assert (entry.evidence, entry.after["outcome"], entry.reason) == (("memory:mem_1",), outcome, "the customer asked")
    assert (made.review is not None) == (outcome == "escalated")


def test_the_risk_is_at_least_that_of_what_is_cited(world: World) -> None:
    """An agent cannot understate it."""
    keep(world, "mem_1", risk="high")

    assert decide(world, cites=["memory:mem_1"], risk="low", **PAY).decision.outcome == "limited"
    assert decide(world, cites=["memory:mem_1"], **PAY).decision.risk == "high"
    assert decide(world, **PAY).decision.risk == "medium"


def test_what_rests_on_nothing_says_so(world: World) -> None:
    made = decide(world, **PAY)
    assert (made.decision.outcome, made.decision.reason, made.cites) == ("executed", "it rests on no object", ())


@pytest.mark.parametrize(
    ("boundary", "content", "outcome"),
    [
        ("PAY", "", "blocked"), ("ｐａｙ", "", "blocked"), ("secret  plan", "A Secret Plan", "blocked"),
        ({"text": "pay", "effect": "limit"}, "", "limited"), ("refund", "", "executed"),
    ],
)  # fmt: skip
def test_a_boundary_is_found_in_the_action_and_in_the_content(
    world: World, boundary: Any, content: str, outcome: str
) -> None:
    personas.set_persona(world, owner=OWNER, person=CAROL, agent="planner", boundaries=[boundary])
    keep(world, "mem_1", content=content)

    made = decide(world, cites=["memory:mem_1"], **PAY)

    assert made.decision.outcome == outcome
    assert bool(made.decision.gates["hits"]) == (outcome != "executed")


def test_what_is_contested_blocks(world: World) -> None:
    keep(world, "mem_1", contested=True)
    assert decide(world, cites=["memory:mem_1"], **PAY).decision.outcome == "blocked"


def test_an_open_rollback_blocks_what_is_of_high_risk(world: World) -> None:
    (root,) = keep(world, "mem_1")
    rollback = Rollback(0, OWNER, "rol_1", root.number, world.clock.now(), "user/carol", agent="planner")
    kept = world.store.transact(lambda tx: tx.rollbacks.add(rollback))

    assert decide(world, risk="high", **PAY).decision.outcome == "blocked"
    assert decide(world, risk="low", **PAY).decision.outcome == "executed"
    assert decide(world, risk="high", **{**PAY, "agent": "other"}).decision.outcome == "limited"
    world.store.transact(lambda tx: tx.rollbacks.save(replace(kept, state="done")))
    assert decide(world, risk="high", **PAY).decision.outcome == "limited"


@pytest.mark.parametrize(
    "given",
    [
        {"action": " "}, {"action": "x" * 4001}, {"action": "a\x00b"}, {"risk": "huge"}, {"cites": "memory:mem_1"},
        {"cites": ["mem_1"]}, {"cites": ["decision:dec_1"]}, {"correlation": ""}, {"agent": "a b"},
        {"reason": "x" * 4001},
    ],
    ids=lambda given: str(given)[:40],
)  # fmt: skip
def test_what_is_no_decision_is_refused_and_leaves_nothing(world: World, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        decide(world, **{**PAY, **given})
    assert find_decisions(world, owner=OWNER) == []


def test_an_object_of_nobody_or_of_another_owner_cannot_be_cited(world: World) -> None:
    keep(world, "mem_1")
    with refused(NotFound, "object_unknown", kind="memory", id="mem_2"):
        decide(world, cites=["memory:mem_1", "memory:mem_2"], **PAY)
    with refused(NotFound, "object_unknown", kind="memory", id="mem_1"):
        decide(world, cites=["memory:mem_1"], **{**PAY, "owner": "bob"})
    with refused(NotFound, "decision_unknown"):
        get_decision(world, "dec_1", owner=OWNER)


def test_decisions_are_listed_newest_first_and_by_what_they_came_to(world: World) -> None:
    keep(world, "mem_1", state="stale")
    made = [decide(world, **PAY).decision, decide(world, cites=["memory:mem_1"], **PAY).decision]

    assert [each.decision for each in find_decisions(world, owner=OWNER)] == made[::-1]
    (limited,) = find_decisions(world, owner=OWNER, outcome="limited")
    assert [str(each) for each in limited.cites] == ["memory:mem_1"]
    assert find_decisions(world, owner="bob") == []
    assert [each.decision for each in find_decisions(world, owner=OWNER, before=made[1].number)] == made[:1]


def test_the_database_itself_refuses_high_risk_that_was_executed(world: World) -> None:
    """Decision 7: enforced by a CHECK."""
    kept = decide(world, risk="high", **PAY).decision

    def cheat(tx: Any) -> None:
        tx.connection.execute(
            text("UPDATE horae_decisions SET outcome = 'executed' WHERE id = :id"), {"id": kept.number}
        )

    with pytest.raises((HoraeError, DBAPIError)):
        world.store.transact(cheat)
    assert get_decision(world, kept.id, owner=OWNER).decision == kept
