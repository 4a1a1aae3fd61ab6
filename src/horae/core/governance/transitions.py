"""What an event does to an object, and what the end of an action means: the only code that moves an object.

The same functions conclude a real job, a forecast and a lived-through test, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.governance.machines import (
    MACHINES,
    Action,
    event_of,
    is_uncertain,
    standing_of,
    way_to_archive,
)
from horae.core.governance.objects import GovernedObject, Opinion, changed
from horae.core.governance.policies import Policy
from horae.core.governance.timers import Planned, archive_at, may_look, next_action
from horae.core.governance.verdicts import Finding

# events that restart the clock of truth, end an episode of uncertainty and restore its budget
SETTLED = {"verified", "confirmed", "adopted", "promoted", "reviewed", "cleared"}
CLEARED = {"cleared", "reviewed", "confirmed"}  # events that end a contest
ANSWERED = CLEARED | {"forged", "refuted"}  # events after which no caller waits for a look that was asked for
STALE = {"decayed", "doubted", "aged", "questioned", "reinstated"}
BEGUN_ANEW = {"reinstated", "reopened"}  # new evidence: uncertainty begins again, with its time and its budget
MOST_OPINIONS = 20


@dataclass(frozen=True, slots=True)
class Around:
    """What the surroundings of an object say when an action concludes."""

    persona_hit: bool = False  # a boundary of the agent's persona is found in its content
    grounds_hold: bool = True  # every memory that it rests on is verified or active
    grounds_doubted: bool = False  # one of them is suspected, doubted or rejected
    evidence: int = 0  # pieces that corroborate it
    survived: bool = False  # a counter-example is stored that it survived
    kept_until: datetime | None = None  # it may not be archived before
    verifier: str = ""  # by whom the finding is
    is_automatic: bool = True  # no person asked for it


ALONE = Around()


@dataclass(frozen=True, slots=True)
class Move:
    """One edge: the event, and the object before and after."""

    event: str
    before: GovernedObject
    after: GovernedObject


@dataclass(frozen=True, slots=True)
class Concluded:
    """The object after an action, the edges that it went along, and what it comes due for next."""

    object: GovernedObject
    moves: tuple[Move, ...]
    planned: Planned | None

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(each.event for each in self.moves)


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
            "opinions": (),
            "needs_person": False,
        }
        changes |= {"verify_used": 0, "unknown_type": None, "mode": None, "uncertain_until": None}
    if event in CLEARED:
        changes["contested"] = False
    if event in ANSWERED:
        changes |= {"asked_action": None, "asked_at": None}
    if event == "suspected":
        changes |= {"contested": True, "opinions": ()}
    if event in STALE:
        changes["stale_since"] = now if event == "reinstated" else it.stale_since or now
    if event == "reinstated":
        changes |= {"stability": policy.stability, "kept_until": None}
    if event == "used":
        changes["used_at"] = now
    if standing_of(state) == "refuted":
        changes["rejected"] = True
    if event == "aged":
        changes |= {"mode": _mode_after_time(it), "uncertain_until": None}
    elif is_uncertain(state) and (event in BEGUN_ANEW or not it.is_uncertain):
        changes |= begin_uncertainty(it, policy, now)
    return changed(it, **changes)


def begin_uncertainty(it: GovernedObject, policy: Policy, now: datetime) -> dict[str, Any]:
    """Return what an episode of uncertainty begins with."""
    return {
        "uncertain_until": now + policy.uncertain_for,
        "unknown_type": it.unknown_type or "out_of_scope",
        "mode": it.mode or policy.mode,
        "verify_used": 0,
    }


def walk(it: GovernedObject, events: Sequence[str], policy: Policy, now: datetime, **changes: Any) -> Concluded:
    """Move an object along events and plan its next action; with no events only *changes* are made.

    The version is raised at least once, so that every change can be told from the one before.
    """
    before = it
    it = changed(it, **changes)
    moves = []
    for event in events:
        after = move(it, event, policy, now)
        moves.append(Move(event, before, after))
        before = it = after
    if not events:
        it = changed(it, version=it.version + 1)
    planned = next_action(it, policy, now)
    due = None if planned is None else planned.at
    it = changed(it, next_action=None if planned is None else planned.action, next_action_at=due)
    if SETTLED & set(events):
        it = changed(it, review_due_at=due)
    if moves:
        moves[-1] = Move(moves[-1].event, moves[-1].before, it)
    return Concluded(it, tuple(moves), planned)


def conclude(
    it: GovernedObject,
    action: Action,
    finding: Finding | None,
    policy: Policy,
    now: datetime,
    around: Around = ALONE,
    *,
    asked_at: datetime | None = None,
) -> Concluded:
    """Return what an action and its finding make of an object, and what it comes due for next.

    Decay and archive carry no finding. A finding that decides nothing is counted, and after a few the object counts as
    unknowable; the end of uncertainty without a budget makes it stale. *asked_at* is the caller's own time of the next
    action, which wins over the policy.
    """
    counted = it if finding is None else _count(it, action, finding, policy, now, around)
    opinions = _opinions(it, action, finding, around)
    done_with: dict[str, Any] = {
        "asked_action": None,
        "asked_at": None,
        "stalled": False,
        "put_backs": 0,
        "admitted_version": None,
    }
    counted = changed(counted, opinions=opinions, **done_with)
    events = _events(it, counted, action, finding, policy, now, around)
    changes: dict[str, Any] = {}
    if action == "archive" and not events and not it.protected:
        changes["kept_until"] = _kept_until(counted, policy, now, around)
    if not events and _is_over(counted, policy, now):
        changes |= {"uncertain_until": None, "mode": _mode_after_time(it)}
    done = walk(counted, events, policy, now, **changes)
    if done.moves:  # the first edge begins with the object as it was before the finding was counted
        first, *others = done.moves
        done = Concluded(done.object, (Move(first.event, it, first.after), *others), done.planned)
    return done if asked_at is None else ask(done, asked_at, policy, now)


def ask(done: Concluded, at: datetime, policy: Policy, now: datetime) -> Concluded:
    """Let a caller's time of the next action win over the policy, within the ends of uncertainty and of its life."""
    if done.object.is_final:
        return done
    action: Action = done.planned.action if done.planned is not None else "reinstate-check"
    it = changed(done.object, asked_action=action, asked_at=max(at, now))
    planned = next_action(it, policy, now)
    assert planned is not None
    it = changed(it, next_action=planned.action, next_action_at=planned.at)
    moves = (*done.moves[:-1], replace(done.moves[-1], after=it)) if done.moves else ()
    return Concluded(it, moves, planned)


def stall(it: GovernedObject, action: Action, policy: Policy, now: datetime) -> Concluded:
    """Return an object whose action could not be done: it is asked for again in a week, and ageing goes on.

    An uncertain object has spent one of its verifications.
    """
    spent = action in ("verify", "revalidate") and it.is_uncertain and may_look(it, action, policy)
    again = {"asked_action": action, "asked_at": now + policy.recheck_every, "stalled": True}
    return walk(it, (), policy, now, verify_used=it.verify_used + spent, admitted_version=None, **again)


def overtaken(it: GovernedObject, action: Action, policy: Policy, now: datetime) -> Concluded:
    """Return an object that changed while it was looked at: the verdict is not applied, but the look was spent."""
    spent = action in ("verify", "revalidate") and it.is_uncertain and may_look(it, action, policy)
    used = it.verify_used + spent
    again = changed(it, verify_used=used)
    changes: dict[str, Any] = {"verify_used": used, "admitted_version": None}
    if action in ("decay", "archive") or may_look(again, action, policy):
        changes |= {"asked_action": action, "asked_at": now}
    return walk(it, (), policy, now, **changes)


def take_evidence(it: GovernedObject, policy: Policy, now: datetime, *, new: int, reinforced: int) -> Concluded:
    """Return the object after evidence has come: what was archived or counted as unknowable is looked at again."""
    changes: dict[str, Any] = {
        "new_evidence": it.new_evidence + new,
        "reinforcements": it.reinforcements + reinforced,
        "reinforced_at": now if reinforced else it.reinforced_at,
    }
    is_new = bool(new or reinforced)
    if is_new and it.is_unknowable:
        fresh = changed(it, unknown_type=None)
        changes |= begin_uncertainty(fresh, policy, now) if it.is_uncertain else {"unknown_type": None}
    comes_back = is_new and it.status == "archived" and not it.rejected and it.superseded_by is None
    return walk(it, ("reinstated",) if comes_back else (), policy, now, **changes)


def archive_events(it: GovernedObject, policy: Policy, now: datetime) -> tuple[str, ...]:
    """Return the way into the archive; none where there is none, or, for what is suspected, not yet."""
    if it.state == "quarantine" and archive_at(it, policy) > now:
        return ()
    return way_to_archive(it.kind, it.state)


def _count(
    it: GovernedObject, action: Action, finding: Finding, policy: Policy, now: datetime, around: Around
) -> GovernedObject:
    """Count a finding, and use up the signals that it has seen."""
    undecided = finding.verdict == "inconclusive" and finding.looked and action != "reinstate-check"
    inconclusives = it.inconclusives + undecided
    never = finding.verdict == "unknowable" or (undecided and inconclusives >= policy.most_inconclusive)
    unknowable = never and it.status not in ("quarantine", "archived")
    automatic = action in ("verify", "revalidate") and finding.looked and around.is_automatic
    in_budget = it.is_uncertain and may_look(it, action, policy)
    return changed(
        it,
        checked_at=now,
        confidence=it.confidence if finding.confidence is None else finding.confidence,
        inconclusives=inconclusives,
        unknown_type="ontic_unknowable" if unknowable else it.unknown_type,
        verify_used=it.verify_used + (automatic and (in_budget or it.status == "quarantine")),
        reinstate_checks=it.reinstate_checks + (action == "reinstate-check" and _is_counted(it)),
        reinforcements=0,
        new_evidence=0,
        reinstate_signal=False,
    )


def _is_counted(it: GovernedObject) -> bool:
    """Whether a reinstate-check counts against the few in an object's life: of what is dormant but for them."""
    rests = it.protected and it.state == "stale_uncertain" and it.uncertain_until is None
    return (rests or it.is_unknowable or it.status == "archived") and not it.has_signal


def _opinions(it: GovernedObject, action: Action, finding: Finding | None, around: Around) -> tuple[Opinion, ...]:
    """Keep a verdict about a suspected object until there is a second one, by another verifier."""
    is_look = action in ("verify", "revalidate") and it.status == "quarantine"
    if not is_look or finding is None or finding.verdict not in ("confirmed", "refuted"):
        return it.opinions
    mine = Opinion(around.verifier, finding.verdict, finding.evidence)
    others = [each for each in it.opinions if each.verifier != mine.verifier]
    return (*others, mine)[-MOST_OPINIONS:]


def agreed(it: GovernedObject) -> str | None:
    """Return the event on which two independent verdicts about a suspected object agree, where they may decide it.

    Independent: by two verifiers, each with evidence, none of it shared.
    """
    if it.risk == "high" or it.needs_person:
        return None
    for verdict, event in (("refuted", "forged"), ("confirmed", "cleared")):
        found = [each for each in it.opinions if each.verdict == verdict and each.evidence]
        for index, first in enumerate(found):
            if any(not set(first.evidence) & set(second.evidence) for second in found[index + 1 :]):
                return event
    return None


def _events(
    before: GovernedObject,
    it: GovernedObject,
    action: Action,
    finding: Finding | None,
    policy: Policy,
    now: datetime,
    around: Around,
) -> tuple[str, ...]:
    if action == "archive":
        return () if it.protected or around.kept_until is not None else archive_events(it, policy, now)
    if it.state == "quarantine":
        event = agreed(it)
        return () if event is None else (event,)
    event = event_of(it.kind, action, it.state, None if finding is None else finding.verdict)
    event = _with_surroundings(before, event, action, finding, policy, around)
    if event is None and it.kind == "cognition" and _is_over(it, policy, now) and not it.is_unknowable:
        event = "aged" if (it.state, "aged") in MACHINES["cognition"].arrows else None
    return () if event is None else (event,)


def _with_surroundings(
    it: GovernedObject, event: str | None, action: Action, finding: Finding | None, policy: Policy, around: Around
) -> str | None:
    """Return the event after what it needs beside its verdict was looked at."""
    if it.kind == "experience" and it.status in ("candidate", "active") and action != "decay":
        if around.persona_hit or around.grounds_doubted:
            return "questioned"
        if event == "promoted" and not (around.grounds_hold and (around.evidence or (finding and finding.evidence))):
            return None
    if event == "reviewed" and it.needs_person:
        return None
    if event == "adopted":
        survived = around.survived or (finding is not None and finding.survived_counterexample)
        return "adopted" if survived and not it.needs_person else None
    if event == "reinstated" and it.kind != "cognition" and it.rejected:
        return None
    if event == "confirmed" and action == "reinstate-check" and it.state == "stale/uncertain":
        confidence = it.confidence if finding is None or finding.confidence is None else finding.confidence
        return "confirmed" if (confidence or 0) >= policy.review_confidence else "reopened"
    return event


def _kept_until(it: GovernedObject, policy: Policy, now: datetime, around: Around) -> datetime:
    """Return until when an object that was not archived now is kept; never now, or it would be asked about at once."""
    return max(around.kept_until or now + policy.recheck_every, now)


def _mode_after_time(it: GovernedObject) -> str:
    return "escalate" if it.risk == "high" else "conservative"


def _is_over(it: GovernedObject, policy: Policy, now: datetime) -> bool:
    """Whether the time of an uncertain object is up and its budget used."""
    ended = it.is_uncertain and it.uncertain_until is not None and it.uncertain_until <= now
    return ended and it.verify_used >= policy.verify_budget
