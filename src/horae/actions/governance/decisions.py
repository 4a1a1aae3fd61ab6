"""The verbs of decisions: weigh what an action rests on, and write down what it comes to.

The cited objects are locked while they are weighed: a rollback that takes one of them back either comes first and is
seen, or comes later and finds the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from horae.actions.governance.reviews import open_for_decision
from horae.actions.governance.rulings import DECISION, draft, highest_risk, judge, lock_cited, write_decision
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT, agent_name
from horae.core.governance.decisions import Decision
from horae.core.governance.gates import Outcome
from horae.core.governance.policies import RISKS, Risk
from horae.core.governance.references import Reference, references
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import encode, label
from horae.errors import InvalidInput, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

MAX_ACTION = 4000
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True, slots=True)
class DecisionView:
    """A decision with what it cites."""

    decision: Decision
    cites: tuple[Reference, ...] = ()
    review: str | None = None  # that was opened because of it


def decide(
    world: World,
    *,
    owner: str,
    action: str,
    cites: Sequence[str] = (),
    risk: Risk | None = None,
    agent: str = EVERY_AGENT,
    correlation: str | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> DecisionView:
    """Decide whether an action may be done that rests on these objects; the answer never changes afterwards.

    The risk is at least that of the riskiest object cited; medium where nothing says otherwise.
    """
    cited, text, whose = object_references(cites), _action(action), agent_name(agent)
    one_of("risk", risk, RISKS)
    thread = None if correlation is None else label(correlation, "correlation", 100)
    now = world.clock.now()

    def write(tx: Tx) -> DecisionView:
        objects = lock_cited(tx, owner, cited)
        weighed = highest_risk([*([] if risk is None else [risk]), *(each.risk for each in objects)])
        ruling = judge(tx, owner, whose, objects, weighed, text)
        made = draft(world, owner, whose, text, weighed, ruling, objects, now, actor, correlation=thread)
        kept = write_decision(world, tx, made, objects, reason=reason)
        opened = open_for_decision(world, tx, kept, objects, now) if kept.outcome == "escalated" else None
        return DecisionView(kept, tuple(cited), None if opened is None else opened.id)

    return world.route(owner=owner).store.transact(write)


def get_decision(world: World, decision_id: str, *, owner: str) -> DecisionView:
    def read(tx: Tx) -> DecisionView:
        found = tx.decisions.get(owner, decision_id)
        if found is None:
            raise NotFound("decision_unknown", id=decision_id)
        return _views(tx, [found])[0]

    return world.route(owner=owner).store.read(read)


def find_decisions(
    world: World,
    *,
    owner: str | None,
    agent: str | None = None,
    outcome: Outcome | None = None,
    risk: Risk | None = None,
    limit: int = 100,
    before: int | None = None,
) -> list[DecisionView]:
    """Return a page of decisions, newest first."""
    page_size(limit)
    one_of("outcome", outcome, OUTCOMES)
    one_of("risk", risk, RISKS)
    return world.route(owner=owner).store.read(
        lambda tx: _views(
            tx, tx.decisions.find(owner=owner, agent=agent, outcome=outcome, risk=risk, limit=limit, before=before)
        )
    )


# -- the parts -----------------------------------------------------------------------------------------------------


def object_references(cites: Any) -> tuple[Reference, ...]:
    """Read what a decision cites: objects, and no other decision."""
    cited = references(cites)
    taken = next((each for each in cited if each.kind == DECISION), None)
    if taken is not None:
        raise InvalidInput("decision_cites_decision", cite=str(taken))
    return cited


def one_of(name: str, value: str | None, choices: Sequence[str]) -> None:
    """Refuse a word that is not among those there are."""
    if value is not None and value not in choices:
        raise InvalidInput("choice_unknown", name=name, value=repr(value)[:40], choices=list(choices))


def _action(text: str) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_ACTION:
        raise InvalidInput("action_text_outside", most=MAX_ACTION)
    encode(text, "action")
    return text.strip()


def _views(tx: Tx, found: Sequence[Decision]) -> list[DecisionView]:
    cites = tx.decisions.cites(each.number for each in found)
    objects = tx.objects.by_number(each.object for each in cites)
    by_decision: dict[int, list[Reference]] = {}
    for each in cites:
        cited = objects.get(each.object)
        if cited is not None:
            by_decision.setdefault(each.decision, []).append(Reference(cited.kind, cited.id))
    return [DecisionView(each, tuple(by_decision.get(each.number, ()))) for each in found]
