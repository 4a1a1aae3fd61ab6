"""What a forged memory takes with it: which event moves each object that rests on it."""

from __future__ import annotations

from collections.abc import Iterable

from horae.core.governance.decisions import Decision
from horae.core.governance.machines import MACHINES, standing_of, status_of
from horae.core.governance.objects import GovernedObject

AT_ONCE = 500  # objects and decisions that one transaction takes back
GONE = ("archived", "retracted")


def is_live_support(ground: GovernedObject) -> bool:
    """Return whether an object still supports what rests on it: neither refuted nor put away."""
    return standing_of(ground.state) != "refuted" and status_of(ground.state) not in GONE


def taken_back_by(it: GovernedObject, grounds: Iterable[GovernedObject]) -> str | None:
    """Return the event by which a rollback moves an object; None where it stands no higher already.

    *grounds* are all that it rests on, as they are by now.
    """
    if it.kind == "experience":
        event = "invalidated"
    elif any(is_live_support(each) for each in grounds):
        event = "conflicted"
    else:
        event = "refuted"
    return event if (it.state, event) in MACHINES[it.kind].arrows else None


def is_to_be_rolled_back(decision: Decision) -> bool:
    """Return whether a decision has to be taken back: one that abstained did nothing."""
    return decision.rolled_back_at is None and decision.outcome != "abstained"
