"""What decisions are made of: lock what is cited, weigh it, and write down what the gates make of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from horae.actions.governance.reasons import private_reason
from horae.core.audit.entries import Entry
from horae.core.governance.boundaries import boundaries_of
from horae.core.governance.decisions import Cite, Decision
from horae.core.governance.gates import Gates, Ruling, rule, weigh, worst_standing
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import RISKS, Risk
from horae.core.governance.references import Reference
from horae.errors import NotFound
from horae.ports.store import Tx
from horae.ports.world import HasDice

DECISION = "decision"
PREFIX = "dec_"
ID_LENGTH = 12
MOST_SUCCESSORS = 20


def lock_cited(tx: Tx, owner: str, cited: Collection[Reference]) -> list[GovernedObject]:
    """Lock what is cited, and return it in the order of the cites."""
    found = tx.objects.by_name((owner, each.kind, each.id) for each in cited)
    missing = next((each for each in cited if (owner, each.kind, each.id) not in found), None)
    if missing is not None:
        raise NotFound("object_unknown", kind=missing.kind, id=missing.id)
    numbers = [found[owner, each.kind, each.id].number for each in cited]
    locked = tx.objects.lock(numbers)
    return [locked[number] for number in numbers]


def judge(tx: Tx, owner: str, agent: str, objects: Sequence[GovernedObject], risk: Risk, *texts: str) -> Ruling:
    """Return what the gates make of an action now; content is read for the boundaries of the persona alone."""
    boundaries = boundaries_of(tx.personas.find([owner]), agent)
    contents = tx.objects.contents(each.number for each in objects) if boundaries else {}
    found = [each.content for each in contents.values() if each.content is not None]
    is_open = risk == "high" and tx.rollbacks.is_open(owner, agent)
    gates = weigh(objects, risk, boundaries, [*texts, *found], rollback_open=is_open)
    return rule(objects, risk, gates)


def write_decision(
    world: HasDice,
    tx: Tx,
    decision: Decision,
    objects: Iterable[GovernedObject],
    *,
    reason: str = "",
) -> Decision:
    """Store a decision with what it cites, and its entry."""
    known = list(objects)
    cites = [Cite(0, each.number, decision.owner, each.version, each.state) for each in known]
    kept = tx.decisions.add(decision, cites)
    refs = [f"{each.kind}:{each.id}" for each in known]
    links = {"predecessor": decision.predecessor, "review": decision.review}
    after = {
        "outcome": kept.outcome, "mode": kept.mode, "gates": dict(kept.gates), "cites": refs,
        **{name: value for name, value in links.items() if value is not None},
    }  # fmt: skip
    entry = Entry(
        kept.decided_at,
        kept.actor,
        "decide",
        DECISION,
        kept.id,
        kept.owner,
        after=after,
        evidence=tuple(refs) or ("none",),
        event_kind="decision_gate",
        risk=kept.risk,
        decision=kept.id,
        correlation=kept.correlation,
        **private_reason(world, reason),
    )  # fmt: skip
    tx.audit.append(entry)
    return kept


def draft(
    world: HasDice, owner: str, agent: str, action: str, risk: Risk, ruling: Ruling, objects: Sequence[GovernedObject],
    now: datetime, actor: str, **links: Any,
) -> Decision:  # fmt: skip
    """Return a new decision as the gates rule."""
    return Decision(
        0, owner, PREFIX + world.dice.name(ID_LENGTH), action, risk, ruling.outcome, ruling.mode, ruling.reason,
        worst_standing(objects), now, actor, agent, gates_dict(ruling.gates), **links,
    )  # fmt: skip


def decision_about(world: HasDice, tx: Tx, it: GovernedObject, act: str, now: datetime, actor: str) -> str | None:
    """Return the decision that an entry about an object of high risk links; it is made here. None for lower risks."""
    if it.risk != "high":
        return None
    ruling = judge(tx, it.owner, it.agent, [it], it.risk)
    made = draft(world, it.owner, it.agent, f"{act} {it.kind}:{it.id}", it.risk, ruling, [it], now, actor)
    return write_decision(world, tx, made, [it]).id


def latest(tx: Tx, decision: Decision) -> Decision:
    """Return the last successor of a decision."""
    for _ in range(MOST_SUCCESSORS):
        if decision.successor is None:
            break
        decision = tx.decisions.get(decision.owner, decision.successor) or decision
    return decision


def cited_by(tx: Tx, decision: Decision) -> list[GovernedObject]:
    """Return the objects that a decision rests on, as they are now."""
    numbers = [each.object for each in tx.decisions.cites([decision.number])]
    return list(tx.objects.by_number(numbers).values())


def highest_risk(risks: Sequence[Risk]) -> Risk:
    return max(risks, key=RISKS.index, default="medium")


def gates_dict(gates: Gates) -> dict[str, Any]:
    """Return what the gates say as entries, rows and doors show it."""
    return {
        "persona": gates.persona, "cognition": gates.cognition, "risk": gates.risk, "hits": list(gates.hits),
        "contested": list(gates.contested), "rollback_open": gates.rollback_open,
    }  # fmt: skip
