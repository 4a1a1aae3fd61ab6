"""Write governed objects and all that follows from a change in one transaction.

Rows, versions, entries, the decision that an entry of high risk links, and the one planned job: after every verb an
object's ``next_action_at`` is the due time of its live job. Locks are taken in one order: objects by their numbers,
then the day's removals, then jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from horae.actions.governance.policies import Policies, policies_of
from horae.actions.governance.reasons import private_reason
from horae.actions.governance.rulings import decision_about
from horae.core.access.callers import Caller
from horae.core.audit.entries import Entry, EventKind
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import JobBudget, verify_budget
from horae.core.governance.entries import ObjectVerb
from horae.core.governance.machines import KINDS
from horae.core.governance.objects import PREFIXES, GovernedObject, ObjectVersion, changed
from horae.core.governance.policies import Policy
from horae.core.governance.timers import may_look
from horae.core.governance.transitions import Concluded, Move
from horae.core.jobs.job import GOVERN, LIVE, Job, NewJob, band_of, govern_name, make_new_job
from horae.core.jobs.payloads import encode, label
from horae.core.time.instants import iso
from horae.errors import Conflict, InvalidInput, NotFound, VersionConflict
from horae.ports.store import Tx
from horae.ports.world import HasDice

NONE = ("none",)
LOOK, NO_LOOK = encode({"look": True}), encode({"look": False})  # may a verifier be asked, or does time alone decide?


@dataclass(frozen=True, slots=True)
class By:
    """Who does it, and why; and what its entries link."""

    actor: str
    reason: str = ""
    is_person: bool = False
    decision: str | None = None
    job: str | None = None
    correlation: str | None = None

    @classmethod
    def caller(cls, caller: Caller, reason: str = "", **links: Any) -> By:
        return cls(caller.actor, reason, caller.is_person, **links)


@dataclass(slots=True)
class Change:
    """One object before and after, and what its entries say beside the edges."""

    before: GovernedObject
    done: Concluded
    verb: ObjectVerb  # of the entry, where there was no edge
    evidence: tuple[str, ...] = ()
    event_kind: EventKind | None = None  # None: of an edge, or of an investigation where there was none
    facts: Mapping[str, Any] = field(default_factory=dict)  # added to what the entries say about after
    ended: bool = False  # the job that runs for it is about to be ended, so that it needs another one
    by: By | None = None  # None: the writer's; of several changes that are written together each may have its own


class ObjectWriter:
    """The objects of one transaction, and who changes them."""

    def __init__(self, world: HasDice, tx: Tx, by: By, now: datetime) -> None:
        self.world = world
        self.tx = tx
        self.by = by
        self.now = now
        self._policies: dict[str, Policies] = {}
        self._budgets: dict[str, JobBudget] = {}
        self._written_budgets: dict[tuple[str, str], str] = {}

    def acting(self, by: By) -> ObjectWriter:
        """Return a writer of this transaction for another actor, which shares what was read of policies and budgets."""
        other = ObjectWriter(self.world, self.tx, by, self.now)
        other._policies, other._budgets, other._written_budgets = self._policies, self._budgets, self._written_budgets
        return other

    # -- find ------------------------------------------------------------------------------------------------------

    def find(self, owner: str, object_id: str, kind: str | None = None) -> GovernedObject:
        return find_one(self.tx, owner, object_id, kind)

    def lock(
        self, owner: str, object_id: str, kind: str | None = None, *, expected_version: int | None = None
    ) -> GovernedObject:  # fmt: skip
        """Lock an object by its name; refuse one that has changed since it was read."""
        it = self.tx.objects.lock([self.find(owner, object_id, kind).number])
        (found,) = it.values()
        check_version(found, expected_version)
        return found

    def policy(self, it: GovernedObject) -> Policy:
        """Return the policy that holds for an object."""
        if it.owner not in self._policies:
            self._policies[it.owner] = policies_of(self.tx, {it.owner})
        return self._policies[it.owner].of(it)

    # -- write -----------------------------------------------------------------------------------------------------

    def save(self, change: Change) -> GovernedObject:
        return self.save_all([change])[0]

    def save_all(self, changes: Sequence[Change]) -> list[GovernedObject]:
        """Write locked objects after their changes, with versions, entries and plans; return them as written."""
        plans = self._plan(changes)
        decisions = [self._decision(change) for change in changes]
        after = [
            planned if decision is None else changed(planned, decision=decision)
            for planned, decision in zip(plans, decisions, strict=True)
        ]
        self.tx.objects.save([(change.before, it) for change, it in zip(changes, after, strict=True)])
        moved = [(change, self._moves(change, it)) for change, it in zip(changes, after, strict=True)]
        self.tx.objects.add_versions([self._version(each) for _, moves in moved for each in moves])
        entries: list[Entry] = []
        for (change, moves), it in zip(moved, after, strict=True):
            entries += self._entries(change, moves, it)
        self.tx.audit.append_many(entries)
        return after

    def entry(
        self,
        it: GovernedObject,
        event: str,
        event_kind: EventKind,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        evidence: tuple[str, ...] = (),
        decision: str | None = None,
        by: By | None = None,
    ) -> Entry:
        """Return an entry about an object; one about high risk links a decision."""
        by = by or self.by
        linked = decision or by.decision
        return Entry(
            self.now,
            by.actor,
            event,
            it.kind,
            it.id,
            it.owner,
            before=dict(before or {}),
            after=dict(after or {}),
            evidence=evidence or NONE,
            event_kind=event_kind,
            risk=it.risk,
            decision=linked or (it.decision if it.risk == "high" else None),
            job=by.job,
            correlation=by.correlation,
            **private_reason(self.world, by.reason),
        )

    def _entries(self, change: Change, moves: Sequence[Move], it: GovernedObject) -> list[Entry]:
        policy = self.policy(it).version
        more = {"policy": policy, **change.facts}
        decision = it.decision if it.risk == "high" else None
        if not moves:
            before, after = facts_of(change.before), facts_of(it) | more
            return [self._entry(it, change, change.verb, before, after, decision)]
        return [
            self._entry(it, change, each.event, facts_of(each.before), facts_of(each.after) | more, decision)
            for each in moves
        ]

    def _entry(
        self,
        it: GovernedObject,
        change: Change,
        event: str,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        decision: str | None,
    ) -> Entry:
        usual: EventKind = "state_transition" if change.done.moves else "investigation"
        kind, evidence = change.event_kind or usual, change.evidence
        return self.entry(
            it, event, kind, before=before, after=after, evidence=evidence, decision=decision, by=change.by
        )

    def _decision(self, change: Change) -> str | None:
        """Return the decision that entries of high risk link: the one given, or one that is made here."""
        it = change.before if change.before.number else change.done.object
        by = change.by or self.by
        if by.decision is not None:
            if self.tx.decisions.get(it.owner, by.decision) is None:
                raise NotFound("decision_unknown", id=by.decision)
            return by.decision
        if change.ended and it.decision is not None:
            return it.decision  # the one with which its job was admitted
        verb = change.done.moves[-1].event if change.done.moves else change.verb
        return decision_about(self.world, self.tx, it, verb, self.now, by.actor)

    def _moves(self, change: Change, it: GovernedObject) -> list[Move]:
        moves = list(change.done.moves)
        if moves:
            moves[-1] = Move(moves[-1].event, moves[-1].before, it)
        return moves

    def _version(self, done: Move) -> ObjectVersion:
        it = done.after
        return ObjectVersion(it.owner, it.number, it.version, self.now, done.event, it.state, snapshot_of(it))

    # -- the one planned job ---------------------------------------------------------------------------------------

    def _plan(self, changes: Sequence[Change]) -> list[GovernedObject]:
        """Move, make or end the job of each object, so that it has exactly the one that its next action needs."""
        # A job that is about to be ended is not looked at: its ending locks it, and asks whether it is still held.
        numbers = [it.job for change in changes if (it := change.before).job is not None and not change.ended]
        jobs = {job.number: job for job in self.tx.jobs.lock_many(numbers)} if numbers else {}
        after: list[GovernedObject] = []
        new: list[tuple[int, GovernedObject]] = []
        for index, change in enumerate(changes):
            it = change.done.object
            job = None if change.ended else jobs.get(change.before.job or 0)
            live = None if job is None or job.state not in LIVE else job
            if live is not None and live.state == "running" and not it.is_final:
                it = changed(it, next_action=change.before.next_action, next_action_at=change.before.next_action_at)
            elif it.next_action is None or it.next_action_at is None:
                self._end(live)
                it = changed(it, job=None)
            elif live is None or not self._moved(live, it):
                new.append((index, it))
            after.append(it)
        for (index, it), number in zip(new, insert_jobs(self, [it for _, it in new]), strict=True):
            after[index] = changed(it, job=number)
        return after

    def _moved(self, job: Job, it: GovernedObject) -> bool:
        """Move the waiting job of an object to its next action."""
        done = self.tx.jobs.replan(job, self.new_job(it))
        if not done:
            raise Conflict("job_changed", id=job.id)
        self.tx.wake([it.queue])
        return True

    def new_job(self, it: GovernedObject) -> NewJob:
        """Return the job that an object's next action needs."""
        assert it.next_action is not None
        assert it.next_action_at is not None
        look = may_look(it, it.next_action, self.policy(it))
        return make_new_job(
            handler=GOVERN,
            payload=LOOK if look else NO_LOOK,
            queue=it.queue,
            band=band_of(it.risk),
            run_at=it.next_action_at,
            planned_at=it.next_action_at,
            owner=it.owner,
            key=f"{it.kind}:{it.id}:{it.version}",
            object_type=it.kind,
            object_id=it.id,
            action=it.next_action,
            budget=self._budget_of(it) if look else None,
        )

    def _budget_of(self, it: GovernedObject) -> str:
        """Return what a look at an object draws on, as its job keeps it."""
        whose = (it.kind, it.agent)
        if whose not in self._written_budgets:
            self._written_budgets[whose] = encode(replace(self.verifications(it.kind), agent=it.agent).as_json())
        return self._written_budgets[whose]

    def verifications(self, kind: str) -> JobBudget:
        """Return what a look at an object of a kind draws on: as its verifier declares it, else one call."""
        if kind not in self._budgets:
            declared = self.tx.definitions.get(govern_name(kind))
            usual = JobBudget(verify_budget(kind), {"calls": 1})
            self._budgets[kind] = usual if declared is None or declared.budget is None else declared.budget
        return self._budgets[kind]

    def _end(self, job: Job | None) -> None:
        if job is not None and job.state == "queued":
            self.tx.jobs.end_waiting(job, reason="its object needs it no more", now=self.now)
        elif job is not None:
            self.tx.jobs.ask_to_cancel(job, reason="its object needs it no more")


def insert_jobs(writer: ObjectWriter, objects: Sequence[GovernedObject]) -> list[int]:
    """Plan the next action of objects as new jobs, and return their numbers."""
    if not objects:
        return []
    new = [writer.new_job(each) for each in objects]
    placed = writer.tx.jobs.insert(new, writer.now)
    taken = [index for index, where in enumerate(placed) if where.deduplicated]
    numbers = [where.number for where in placed]
    for index in taken:  # a caller used the name of this job as a key: it goes under another one
        other = replace(new[index], key=f"{new[index].key}:{writer.world.dice.name(8)}")
        numbers[index] = writer.tx.jobs.insert([other], writer.now)[0].number
    writer.tx.wake({each.queue for each in objects})
    return numbers


# -- what entries and versions say -------------------------------------------------------------------------------------


def facts_of(it: GovernedObject) -> dict[str, Any]:
    """Return what an entry says about an object before or after."""
    if not it.version:
        return {}
    facts: dict[str, Any] = {"status": it.status, "version": it.version}
    if it.epistemic_state is not None:
        facts["epistemic_state"] = it.epistemic_state
    at = None if it.next_action_at is None else iso(it.next_action_at)
    flags = {name: True for name in ("contested", "stalled") if getattr(it, name)}
    return facts | {"next_action": it.next_action, "next_action_at": at} | flags


SNAPSHOT = (
    "agent", "category", "risk", "impact", "confidence", "tamper", "contested", "protected", "unknown_type", "mode",
    "superseded_by", "verify_used", "inconclusives", "reinstate_checks",
)  # fmt: skip
TIMES = ("verified_at", "stale_since", "uncertain_until", "expires_at", "used_at", "next_action_at")


def snapshot_of(it: GovernedObject) -> dict[str, Any]:
    """Return an object as a version keeps it: what it takes to restore it, and nothing that names a person."""
    kept = {name: getattr(it, name) for name in SNAPSHOT}
    times = {name: value for name in TIMES if (value := getattr(it, name)) is not None}
    return {name: value for name, value in kept.items() if value not in (None, False)} | {
        name: iso(value) for name, value in times.items()
    }


# -- names -------------------------------------------------------------------------------------------------------------


def find_one(tx: Tx, owner: str, object_id: str, kind: str | None = None) -> GovernedObject:
    """Return an object by its id; where several kinds share it, the kind has to be named."""
    if kind is not None and kind not in KINDS:
        raise InvalidInput("choice_unknown", name="kind", value=repr(kind)[:40], choices=KINDS)
    given = label(object_id, "id of an object", 160)
    named, colon, rest = given.partition(":")
    if kind is None and colon and named in KINDS:
        kind, given = named, rest
    if kind is None:
        kind = next((each for each, prefix in PREFIXES.items() if given.startswith(prefix)), None)
    found = tx.objects.named(owner, given, kind)
    if not found and kind is not None and not colon:
        found = tx.objects.named(owner, given)  # a caller's own id may begin like another kind's
    if not found:
        raise NotFound("object_unknown", kind=kind or "object", id=given)
    if len(found) > 1:
        raise InvalidInput("object_ambiguous", id=given, kinds=[each.kind for each in found])
    return found[0]


def check_version(it: GovernedObject, expected: int | None) -> None:
    if expected is not None and expected != it.version:
        raise VersionConflict("object_version_old", kind=it.kind, id=it.id, version=it.version, expected=expected)
