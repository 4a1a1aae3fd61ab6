"""The act gate, over rows: what is cited, read fresh, and what speaks against relying on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from horae.actions.governance.policies import policies_of
from horae.actions.governance.rulings import DECISION, latest
from horae.core.governance.act_gate import decision_objection, is_covered, object_objection
from horae.core.governance.references import Reference, references
from horae.core.jobs.reasons import Reason
from horae.ports.store import Tx


def unknown_cite(tx: Tx, owner: str, cites: Sequence[str]) -> Reference | None:
    """Return the first reference to something that this owner does not have."""
    for each in references(cites):
        name = (owner, each.kind, each.id)
        known = tx.decisions.get(owner, each.id) if each.kind == DECISION else tx.objects.by_name([name]).get(name)
        if known is None:
            return each
    return None


def objections(tx: Tx, owner: str, cites: Sequence[str], now: datetime) -> list[Reason]:
    """Say what speaks against an act that cites these now; nothing where it may be done.

    A decision stands for its last successor, and for the objects that it rests on.
    """
    cited = references(cites)
    named = [tx.decisions.get(owner, each.id) for each in cited if each.kind == DECISION]
    decisions = [latest(tx, each) for each in named if each is not None]
    rests_on = tx.decisions.cites(each.number for each in decisions)
    names = [(owner, each.kind, each.id) for each in cited if each.kind != DECISION]
    found = {it.number: it for it in tx.objects.by_name(names).values()}
    found |= tx.objects.by_number(each.object for each in rests_on)
    policies = policies_of(tx, {owner})
    against = [decision_objection(each) for each in decisions]
    for it in found.values():
        policy = policies.of(it)
        if not is_covered(it, decisions, rests_on, policy, now):
            against.append(object_objection(it, policy, now))
    return [each for each in against if each is not None]
