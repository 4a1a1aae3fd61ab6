"""The verbs by which a caller judges an object: bring a verdict, contest it, clear it, reject it, ask for a look."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.actions.governance.evidence import derived_names, new_evidence
from horae.actions.governance.object_writer import By, Change, ObjectWriter, check_version, find_one
from horae.actions.governance.quarantine import lock_with_dependents, question_dependents, with_reviews
from horae.actions.governance.rollbacks import FORGED, begin_rollback
from horae.actions.governance.surroundings import read_surroundings
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.governance.boundaries import EVERY_AGENT
from horae.core.governance.evidence import Evidence, EvidenceKind, reference_key
from horae.core.governance.machines import MACHINES, contest_event
from horae.core.governance.objects import GovernedObject
from horae.core.governance.openings import CLEARED, REJECTED
from horae.core.governance.proposals import GivenEvidence, evidence_from
from horae.core.governance.timers import may_look
from horae.core.governance.transitions import Concluded, walk
from horae.core.governance.transitions import conclude as conclude_action
from horae.core.governance.verdicts import Finding, finding_from
from horae.core.jobs.job import OBJECT_ACTIONS
from horae.core.time.instants import aware
from horae.errors import Forbidden, IllegalTransition, InvalidInput, NotAllowed
from horae.ports.store import Tx
from horae.ports.world import World

Decide = Callable[[ObjectWriter, GovernedObject], Change]


@dataclass(frozen=True, slots=True)
class Given:
    """What every verb takes: which object, of which version, by whom, why, and what its entries link."""

    id: str
    owner: str
    caller: Caller
    kind: str | None = None
    reason: str = ""
    expected_version: int | None = None
    decision: str | None = None
    correlation: str | None = None
    evidence: Sequence[Any] = ()


def change_object(
    world: World, given: Given, decide: Decide, *, evidence_kind: EvidenceKind = "supports"
) -> GovernedObject:
    """Lock an object with what rests on it, let *decide* say what becomes of it, and write all of it.

    *evidence_kind* is that of evidence which does not say whether it speaks for or against the object.
    """
    pieces = evidence_from(given.evidence, evidence_kind)

    def write(tx: Tx) -> GovernedObject:
        links = {"decision": given.decision, "correlation": given.correlation}
        writer = ObjectWriter(world, tx, By.caller(given.caller, given.reason, **links), world.clock.now())
        found = find_one(tx, given.owner, given.id, given.kind)
        locked = lock_with_dependents(tx, {found.number: found.kind})
        it = locked.objects[found.number]
        check_version(it, given.expected_version)
        refuse_other_agent(it, given.caller)
        change = decide(writer, it)
        change.evidence = (*change.evidence, *keep_evidence(writer, it, pieces)) or change.evidence
        after = writer.save(change)
        after = with_reviews(writer, it, after)
        if after.state == FORGED and it.state != FORGED:
            begin_rollback(writer, after)
        else:
            question_dependents(writer, after, locked.objects.values(), locked.above.get(it.number, ()))
        return after

    return world.route(owner=given.owner).store.transact(write)


def keep_evidence(writer: ObjectWriter, it: GovernedObject, given: Sequence[GivenEvidence]) -> tuple[str, ...]:
    """Store the evidence that a verb or a verdict brings, and return the ids of all of it, old and new."""
    if not given:
        return ()
    known = writer.tx.evidence.known(it.number, [reference_key(each.reference) for each in given])
    fresh = [each for each in given if reference_key(each.reference) not in known]
    pieces: list[Evidence] = new_evidence(writer, it, fresh, derived_names(writer.tx, it)) if fresh else []
    writer.tx.evidence.add(pieces)
    return tuple(each.id for each in (*known.values(), *pieces))


# -- verdicts ----------------------------------------------------------------------------------------------------------


def conclude(world: World, given: Given, verdict: Any, *, next_action_at: datetime | None = None) -> GovernedObject:
    """Bring a verdict about an object without a job: what an agent or a person found out by itself."""
    finding = finding_from({"verdict": verdict} if isinstance(verdict, str) else verdict)
    at = None if next_action_at is None else aware(next_action_at, "next_action_at")

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        refuse_final(it)
        refuse_own_verdict(it, given.caller)
        action: Any = "reinstate-check" if it.status == "archived" else "verify"
        around = read_surroundings(writer.tx, [it]).of(it, verifier=given.caller.actor, is_automatic=False)
        found = without_derived(it, finding, derived_names(writer.tx, it) if finding.evidence else ())
        done = conclude_action(it, action, found, writer.policy(it), writer.now, around, asked_at=at)
        ids = keep_evidence(writer, it, evidence_of(finding))
        return Change(it, done, "concluded", ids, facts={"verdict": finding.verdict})

    return change_object(world, given, decide)


def evidence_of(finding: Finding) -> list[GivenEvidence]:
    """Return the evidence of a verdict as it is stored."""
    kinds: dict[str, EvidenceKind] = {"confirmed": "supports", "refuted": "contradicts"}
    return [GivenEvidence(each, kinds.get(finding.verdict, "examined")) for each in finding.evidence]


def without_derived(it: GovernedObject, finding: Finding, derived: Collection[str]) -> Finding:
    """Return a finding without references to what comes from the object itself; *derived* rests on it."""
    own = {it.id, f"{it.kind}:{it.id}", *derived}
    return replace(finding, evidence=tuple(each for each in finding.evidence if each not in own))


def verify_now(world: World, given: Given, *, action: str | None = None, at: datetime | None = None) -> GovernedObject:
    """Ask for an action, now or at a time; the object's one job moves there.

    A decay or an archive that is asked for needs neither crossing nor expiry.
    """
    if action is not None and action not in OBJECT_ACTIONS:
        raise InvalidInput("choice_unknown", name="action", value=repr(action)[:40], choices=OBJECT_ACTIONS)
    asked_at = None if at is None else aware(at, "at")

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        done = ask_for(writer, it, action, asked_at, is_person=given.caller.is_person)
        return Change(it, done, "asked", event_kind="scheduler_job", facts={"action": done.object.asked_action})

    return change_object(world, given, decide)


def ask_for(
    writer: ObjectWriter, it: GovernedObject, action: str | None, at: datetime | None, *, is_person: bool
) -> Concluded:
    """Return an object whose next action is the one that a caller asked for."""
    refuse_final(it)
    policy = writer.policy(it)
    wanted: Any = action or ("reinstate-check" if it.status == "archived" else "verify")
    if not is_person and wanted in ("verify", "revalidate") and not may_look(it, wanted, policy):
        raise NotAllowed("verify_budget_used", kind=it.kind, id=it.id, budget=policy.verify_budget)
    exhausted = it.reinstate_checks >= len(policy.reinstate_after) and not it.has_signal
    if it.is_unknowable and not is_person and (wanted != "reinstate-check" or exhausted):
        raise NotAllowed("object_unknowable", kind=it.kind, id=it.id)
    when = writer.now if at is None else max(at, writer.now)
    return walk(it, (), policy, writer.now, asked_action=wanted, asked_at=when)


# -- contests ----------------------------------------------------------------------------------------------------------


def contest(world: World, given: Given) -> GovernedObject:
    """Say that an object may be wrong: it is suspected, or asked about, until that is cleared.

    What is suspected is looked at at once, however lately it was, and whatever time a caller asked for before.
    """

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        refuse_final(it)
        event = contest_event(it.kind, it.state)
        events = () if event is None else (event,)
        at_once = {"asked_action": "verify", "asked_at": writer.now} if event == "suspected" else {}
        done = walk(it, events, writer.policy(it), writer.now, contested=True, **at_once)
        return Change(it, done, "contested")

    return change_object(world, given, decide, evidence_kind="contradicts")


def clear(world: World, given: Given) -> GovernedObject:
    """Say as a person that an object holds after all."""
    return _by_person(world, given, CLEARED)


def reject(world: World, given: Given) -> GovernedObject:
    """Say as a person that an object is forged or wrong. What rests on a forged memory is taken back by a rollback."""
    return _by_person(world, given, REJECTED, "contradicts")


def _by_person(
    world: World, given: Given, events: dict[str, str], evidence_kind: EvidenceKind = "supports"
) -> GovernedObject:
    given.caller.require_person()

    def decide(writer: ObjectWriter, it: GovernedObject) -> Change:
        event = events.get(it.kind)
        if event is None or (it.state, event) not in MACHINES[it.kind].arrows:
            raise illegal(it, event or "rejected")
        refuse_proposer(it, given.caller)
        return Change(it, walk(it, (event,), writer.policy(it), writer.now), "concluded")

    return change_object(world, given, decide, evidence_kind=evidence_kind)


# -- refusals ----------------------------------------------------------------------------------------------------------


def refuse_final(it: GovernedObject) -> None:
    if it.is_final:
        raise IllegalTransition("object_is_final", kind=it.kind, id=it.id, state=it.state)


def refuse_other_agent(it: GovernedObject, caller: Caller) -> None:
    """Refuse the token of an agent where the object is another agent's."""
    if caller.agent is not None and it.agent not in (caller.agent, EVERY_AGENT):
        raise Forbidden("agent_of_token", agent=caller.agent)


def refuse_proposer(it: GovernedObject, caller: Caller) -> None:
    """Refuse a judgement by the actor who proposed the object."""
    if caller.actor == it.proposer:
        raise Forbidden("object_of_ones_own", kind=it.kind, id=it.id, actor=caller.actor)


def refuse_own_verdict(it: GovernedObject, caller: Caller) -> None:
    """Refuse a verdict that would decide about high risk by itself: there it takes a verifier or a person."""
    if it.risk == "high" and not caller.is_person:
        raise Forbidden("verdict_needs_person", kind=it.kind, id=it.id)
    if it.state == "quarantine":
        refuse_proposer(it, caller)


def illegal(it: GovernedObject, event: str) -> IllegalTransition:
    possible = [name for (state, name) in MACHINES[it.kind].arrows if state == it.state]
    return IllegalTransition("event_illegal", kind=it.kind, id=it.id, state=it.state, event=event, possible=possible)
