"""What an event does to an object, and what the end of an action means: the only code that moves an object.

The same functions conclude a real job, a forecast and a lived-through test, so that they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from horae.core.governance.machines import MACHINES, Action, event_of, is_uncertain, way_to_archive
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.governance.timers import Planned, next_action
from horae.core.governance.verdicts import Finding

SETTLED = {
    "verified",
    "confirmed",
    "adopted",
    "promoted",
    "reviewed",
    "cleared",
}  # events that restart the clock of truth
RESTORED = {"confirmed", "adopted"}  # events that end an episode of uncertainty
CLEARED = {"cleared", "reviewed", "confirmed"}  # events that end a contest
STALE = {"decayed", "doubted", "aged", "questioned", "reinstated"}


@dataclass(frozen=True, slots=True)
class Concluded:
    """The object after an action, and the events that moved it; none where it stays as it was."""

    object: GovernedObject
    events: tuple[str, ...]
    planned: Planned | None


def move(it: GovernedObject, event: str, policy: Policy, now: datetime) -> GovernedObject:
    """Return the object after an event; NotAllowed where its machine has no such arrow."""
    state = MACHINES[it.kind].after(it.state, event)
    changes: dict[str, Any] = {"state": state, "state_since": now, "version": it.version + 1}
    if event in SETTLED:
        held = it.state in ("verified", "active", "active/supported")
        longer = min(it.stability * policy.stretch, policy.longest_stability)
        changes |= {
            "stability": longer if event == "confirmed" and held else policy.stability,
            "verified_at": now,
            "stale_since": None,
        }
    if event in RESTORED or (event in SETTLED and it.is_uncertain):
        changes |= {"verify_used": 0, "unknown_type": None, "mode": None, "uncertain_until": None}
    if event in CLEARED:
        changes["contested"] = False
    if event in STALE:
        changes["stale_since"] = now if event == "reinstated" else it.stale_since or now
    if event == "reinstated":
        changes["stability"] = policy.stability
    if event == "used":
        changes["used_at"] = now
    if event == "aged":
        changes |= {"mode": "escalate" if it.risk == "high" else "conservative", "uncertain_until": None}
    elif is_uncertain(state) and not it.is_uncertain:
        changes |= begin_uncertainty(it, policy, now)
    return replace(it, **changes)


def begin_uncertainty(it: GovernedObject, policy: Policy, now: datetime) -> dict[str, Any]:
    """Return what an episode of uncertainty begins with; the budget is restored only by its end."""
    return {
        "uncertain_until": now + policy.uncertain_for,
        "unknown_type": it.unknown_type or "out_of_scope",
        "mode": it.mode or policy.mode,
    }


def conclude(it: GovernedObject, action: Action, finding: Finding | None, policy: Policy, now: datetime) -> Concluded:
    """Return what an action and its finding make of an object, and what it comes due for next.

    Decay and archive carry no finding. A finding that decides nothing is counted, and after a few the object counts as
    unknowable; the end of uncertainty without a budget makes it stale.
    """
    before = it
    if finding is not None:
        it = _count(it, action, finding, policy, now)
    events = _events(before, it, action, finding, policy, now)
    it = replace(it, asked_action=None, asked_at=None, stalled=False)
    for event in events:
        it = move(it, event, policy, now)
    if not events and _is_over(it, policy, now):
        it = replace(it, uncertain_until=None, mode="escalate" if it.risk == "high" else "conservative")
    if finding is not None and finding.verdict == "unknowable" and it.unknown_type != "ontic_unknowable":
        it = replace(it, unknown_type="ontic_unknowable", uncertain_until=None)
    planned = next_action(it, policy, now)
    due = planned.at if planned is not None else None
    it = replace(it, next_action=None if planned is None else planned.action, next_action_at=due)
    if SETTLED & set(events):
        it = replace(it, review_due_at=due)
    return Concluded(it, events, planned)


def _count(it: GovernedObject, action: Action, finding: Finding, policy: Policy, now: datetime) -> GovernedObject:
    """Count a finding, and use up the signals that it has seen."""
    undecided = finding.verdict == "inconclusive" and action != "reinstate-check"
    inconclusives = it.inconclusives + undecided
    unknowable = finding.verdict == "unknowable" or (undecided and inconclusives >= policy.most_inconclusive)
    automatic = action in ("verify", "revalidate") and (it.is_uncertain or it.status == "quarantine")
    return replace(
        it,
        checked_at=now,
        confidence=it.confidence if finding.confidence is None else finding.confidence,
        inconclusives=inconclusives,
        unknown_type="ontic_unknowable" if unknowable else it.unknown_type,
        uncertain_until=None if unknowable else it.uncertain_until,
        verify_used=it.verify_used + automatic,
        reinstate_checks=it.reinstate_checks + (action == "reinstate-check" and _is_counted(it)),
        reinforcements=0,
        new_evidence=0,
        reinstate_signal=False,
    )


def _is_counted(it: GovernedObject) -> bool:
    """Whether a reinstate-check counts against the few in an object's life: of what is archived or unknowable."""
    return it.is_unknowable or it.status == "archived"


def _events(
    before: GovernedObject,
    it: GovernedObject,
    action: Action,
    finding: Finding | None,
    policy: Policy,
    now: datetime,
) -> tuple[str, ...]:
    if action == "archive":
        return () if it.protected else way_to_archive(it.kind, it.state)
    verdict = None if finding is None else finding.verdict
    event = event_of(it.kind, action, it.state, verdict)
    if event == "adopted" and finding is not None and not finding.survived_counterexample:
        event = None
    if event == "confirmed" and action == "reinstate-check" and it.state == "stale/uncertain":
        event = "confirmed" if (it.confidence or 0) >= policy.review_confidence else "reopened"
    if event is None and it.kind == "cognition" and _is_over(before, policy, now) and not it.is_unknowable:
        event = "aged" if (it.state, "aged") in MACHINES["cognition"].arrows else None
    return () if event is None else (event,)


def _is_over(it: GovernedObject, policy: Policy, now: datetime) -> bool:
    """Whether the time of an uncertain object is up and its budget used."""
    ended = it.is_uncertain and it.uncertain_until is not None and it.uncertain_until <= now
    return ended and it.verify_used >= policy.verify_budget
