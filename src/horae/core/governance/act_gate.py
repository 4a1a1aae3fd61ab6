"""The act gate: why an act may not rely yet on what it cites.

A cited object of high risk must be active and verified lately. A decision that a person has approved covers the objects
that it rests on, as long as they stay as they were then.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from horae.core.governance.decisions import Cite, Decision
from horae.core.governance.gates import may_act_on
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.jobs.reasons import Reason
from horae.core.time.instants import iso

GRANTED = ("executed", "limited")


def object_objection(it: GovernedObject, policy: Policy, now: datetime) -> Reason | None:
    """Say why an act may not cite this object yet; None where it may."""
    why, cite = may_act_on(it, policy, now), f"{it.kind}:{it.id}"
    if why is None:
        return None
    if why == "contested":
        return Reason("cite_held", "cite_contested", {"cite": cite})
    if why == "not_active":
        return Reason("cite_held", "cite_not_active", {"cite": cite, "state": it.state})
    age, verified = policy.act_age.total_seconds(), it.verified_at
    if verified is None:
        return Reason("cite_held", "cite_never_verified", {"cite": cite})
    return Reason("cite_held", "cite_verified_long_ago", {"cite": cite, "verified_at": iso(verified), "age": age})


def decision_objection(decision: Decision) -> Reason | None:
    """Say why an act may not rely on a decision; None where it may."""
    cite = f"decision:{decision.id}"
    if decision.rolled_back_at is not None:
        return Reason("cite_held", "cite_rolled_back", {"cite": cite})
    if decision.outcome not in GRANTED:
        return Reason("cite_held", "cite_not_granted", {"cite": cite, "outcome": decision.outcome})
    return None


def is_covered(
    it: GovernedObject, decisions: Iterable[Decision], cites: Iterable[Cite], policy: Policy, now: datetime
) -> bool:
    """Return whether a person has approved a decision that rests on this object, as it is now and lately enough."""
    approved = {
        each.number
        for each in decisions
        if each.review is not None and decision_objection(each) is None and now - each.decided_at <= policy.act_age
    }
    return any(each.decision in approved and (each.object, each.version) == (it.number, it.version) for each in cites)
