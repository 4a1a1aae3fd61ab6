"""When a review is opened by itself, and what an answer means for the object."""

from __future__ import annotations

from datetime import datetime, timedelta

from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject
from horae.core.governance.reviews import Answer

OPENED_AT_MOST = 3  # by themselves, about one object
OPENED_EVERY = timedelta(days=30)  # after those
PUT_BACKS = 3  # by a gate, after which a review is opened
_MOVES: dict[tuple[str, str], str] = {
    ("memory", "approve"): "cleared",
    ("memory", "reject"): "forged",
    ("experience", "approve"): "reviewed",
}


def may_open(it: GovernedObject, now: datetime) -> bool:
    """Return whether one more review of an object may be opened without a person asking for it."""
    if it.is_final:
        return False
    return it.reviews < OPENED_AT_MOST or it.reviewed_at is None or now - it.reviewed_at >= OPENED_EVERY


def answered_event(it: GovernedObject, answer: Answer) -> str | None:
    """Return the event by which an answer moves an object; None where it stays as it is."""
    event = _MOVES.get((it.kind, answer))
    return event if event is not None and (it.state, event) in MACHINES[it.kind].arrows else None
