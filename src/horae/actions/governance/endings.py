"""What the end of a job means for its object: a verdict, a retry, a stall, an ending that came too late."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, cast

from horae.actions.governance.admission import Name, name_of, stop
from horae.actions.governance.entries import LONGEST_REASON, JobEntries, masked
from horae.actions.governance.evidence import derived_names, new_evidence
from horae.actions.governance.gates import gate_changed, read_gates
from horae.actions.governance.object_writer import By, Change, ObjectWriter
from horae.actions.governance.quarantine import Locked, lock_with_dependents, question_dependents, with_reviews
from horae.actions.governance.questions import ask_agent, silence
from horae.actions.governance.rollbacks import FORGED, begin_rollback
from horae.actions.governance.surroundings import Surroundings, read_surroundings, why_kept
from horae.actions.governance.verdicts import evidence_of, without_derived
from horae.core.audit.entries import Entry, EventKind
from horae.core.governance.answers import ATTEND, Answer, Attend, answer_from
from horae.core.governance.entries import ObjectVerb
from horae.core.governance.evidence import Evidence, reference_key
from horae.core.governance.machines import Action
from horae.core.governance.objects import GovernedObject, changed
from horae.core.governance.policies import Policy
from horae.core.governance.timers import LOOKS, may_look
from horae.core.governance.transitions import Concluded, conclude, overtaken, stall
from horae.core.governance.verdicts import Finding, judge
from horae.core.jobs.job import Ending, Job, Outcome
from horae.errors import InvalidInput
from horae.ports.claims import JobEnding
from horae.ports.store import Tx
from horae.ports.world import HasDice

BUILT_IN = "built-in"
VERBS: Mapping[str, ObjectVerb] = {
    "succeeded": "acknowledged", "failed": "failed", "timed_out": "failed", "lost": "lost", "snoozed": "released",
    "released": "released", "cancelled": "ended", "skipped": "ended",
}  # fmt: skip


def settle(world: HasDice, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> Mapping[int, Outcome]:
    """Write what endings mean for their objects; return outcomes that take the place of others."""
    found = tx.objects.kinds_by_number(name_of(each.job) for each in endings)
    return _Settling(world, tx, now, lock_with_dependents(tx, found)).settle(endings)


class _Settling:
    """The endings of one transaction, and the objects that they are about, which are locked.

    What becomes of each object is decided first, and then written for all of them at once: a statement for the objects,
    one for their versions, one for their next jobs, one for the entries. What follows from a change for other objects
    comes last.
    """

    def __init__(self, world: HasDice, tx: Tx, now: datetime, locked: Locked) -> None:
        self.world = world
        self.tx = tx
        self.now = now
        self.objects: dict[Name, GovernedObject] = {}
        self._remember(locked.objects.values())
        self.above = locked.above
        self.writer = ObjectWriter(world, tx, By("system/governance"), now)
        self.job_entries = JobEntries(world, now)
        self.replaced: dict[int, Outcome] = {}
        self.entries: list[Entry] = []
        self.evidence: list[Evidence] = []
        self.saved: list[tuple[GovernedObject, GovernedObject]] = []  # due at another time, and nothing else
        self.changes: list[Change] = []

    def settle(self, endings: Sequence[JobEnding]) -> Mapping[int, Outcome]:
        planned = [(each, it) for each in endings if (it := self._planned(each.job)) is not None]
        ended = [it for each, it in planned if each.outcome.ending == "succeeded"]
        around = read_surroundings(self.tx, [_acted_on(each, it) for each, it in planned]) if planned else None
        gates = read_gates(self.tx, ended)
        for ending in endings:
            each = with_cost(ending)
            it = self._planned(each.job)
            if each is not ending:
                self.replaced[each.job.number] = each.outcome
            if it is None or around is None:
                self.entries.append(self._plain(each))
            elif each.put_back:
                self._come_back(each, it)
            elif each.outcome.ending == "succeeded" and gates.blocks(it):
                self._stop(each, it)
            elif each.outcome.ending == "succeeded":
                self._conclude(each, it, around)
            elif each.change.state == "queued":
                self._come_back(each, it)
            else:
                self._stall(each, it)
        self._write_all()
        return self.replaced

    def _planned(self, job: Job) -> GovernedObject | None:
        """Return the stored object whose planned job this is."""
        it = self.objects.get(name_of(job))
        return it if it is not None and it.job == job.number and not it.is_final else None

    def _plain(self, ending: JobEnding) -> Entry:
        """Return the entry about a job whose object is stored nowhere, or has another job by now."""
        verb: ObjectVerb = "dead" if ending.change.state == "dead" else VERBS[ending.outcome.ending]
        after: dict[str, Any] = {"state": ending.change.state}
        if ending.outcome.audit_event_id is not None:
            after["audit_event_id"] = ending.outcome.audit_event_id
        reason = ending.change.error or ending.outcome.error
        it = self.objects.get(name_of(ending.job))
        if it is not None and it.is_final and ending.change.state == "queued" and not ending.put_back:
            gone = "its object was retracted meanwhile"  # another attempt would be for nothing
            self.replaced[ending.job.number] = _instead(ending, "cancelled", error=gone)
            after["state"] = "cancelled"
        if it is not None and it.erased_at is not None:  # what a late worker says about it must not come back
            current = self.replaced.get(ending.job.number, ending.outcome)
            self.replaced[ending.job.number] = replace(current, result=None, error=None, lines=None)
            self.tx.erasures.steps([ending.job.number])
            reason = None
        return self.job_entries.entry(ending.job, "put_back" if ending.put_back else verb, after=after, reason=reason)

    # -- what becomes of the object --------------------------------------------------------------------------------

    def _come_back(self, ending: JobEnding, it: GovernedObject) -> None:
        """Follow a job that is queued again: the object's next action is due when the job is."""
        after = changed(it, next_action_at=ending.change.run_at, admitted_version=None)
        self.saved.append((it, after))
        verb: ObjectVerb = "put_back" if ending.put_back else VERBS[ending.outcome.ending]
        reason = ending.change.error or ending.outcome.error
        self.entries.append(self.job_entries.moved(ending.job, verb, it, after, reason))

    def _stop(self, ending: JobEnding, it: GovernedObject) -> None:
        """Apply nothing where a gate has closed since the job was admitted; it goes back."""
        after, reason = stop(self.world, self.tx, ending.job, it, read_gates(self.tx, [it]), self.now)
        assert after.next_action_at is not None
        self.saved.append((it, after))
        delay = after.next_action_at - self.now
        self.replaced[ending.job.number] = _instead(ending, "snoozed", error=reason, delay=delay)
        self.entries.append(self.job_entries.moved(ending.job, "put_back", it, after, reason))

    def _stall(self, ending: JobEnding, it: GovernedObject) -> None:
        """Keep an object going whose job is dead or was cancelled: its time rules are planned."""
        dead = ending.change.state == "dead"
        reason = masked(ending.job, ending.change.error or ending.outcome.error)
        self._change(ending.job, it, "dead" if dead else "ended", self._stalled(ending.job, it), reason)

    def _conclude(self, ending: JobEnding, it: GovernedObject, around: Surroundings) -> None:
        job, outcome = ending.job, ending.outcome
        action = cast(Action, job.action)
        if is_lost(outcome):
            self._refuse(ending, it, masked(job, outcome.error))
            return
        try:
            answer = verdict_in(outcome.result)
        except InvalidInput as problem:
            self._refuse(ending, it, str(problem))
            return
        if answer is None and action in LOOKS:
            answer = silence(self.tx, job, self.now)
        reason = answer.note if isinstance(answer, Finding) else ""
        policy = self.writer.policy(it)
        facts: dict[str, Any] = {"action": action}
        if outcome.audit_event_id is not None:
            facts["audit_event_id"] = outcome.audit_event_id
        if it.admitted_version is not None and it.version != it.admitted_version:
            self._change(job, it, "overtaken", overtaken(it, action, policy, self.now), reason, facts=facts)
            return
        if isinstance(answer, Attend) and may_look(it, action, policy):
            self._think(ending, it, answer)
            return
        if isinstance(answer, Attend):
            answer = None  # time alone decides
        finding = self._finding(it, action, answer, policy, around)
        surroundings = around.of(it, verifier=verifier_of(job, outcome, answer))
        if action == "archive":
            kept = None if it.protected else why_kept(self.tx, it, around, policy, self.now)
            surroundings = replace(surroundings, kept_until=None if kept is None else kept.until)
        done = conclude(it, action, finding, policy, self.now, surroundings, asked_at=outcome.next_action_at)
        ids = () if answer is None else self._keep_evidence(job, it, answer, around)
        if finding is not None:
            facts |= {"verdict": finding.verdict, "verifier": surroundings.verifier}
        self._change(job, it, "unchanged", done, reason, kind=None, evidence=ids, facts=facts)

    def _think(self, ending: JobEnding, it: GovernedObject, attend: Attend) -> None:
        """Let an agent think about it: the job goes back until the agent has answered, or its time is over."""
        until = ask_agent(self.tx, ending.job, it, attend, self.now)
        after = changed(it, next_action_at=until, admitted_version=None)
        self.saved.append((it, after))
        reason = f"{attend.lane} thinks about it"
        waits = _instead(ending, "snoozed", error=reason, delay=until - self.now)
        self.replaced[ending.job.number] = replace(waits, audit_event_id=ending.outcome.audit_event_id)
        self.entries.append(self.job_entries.moved(ending.job, "released", it, after, reason))

    def _finding(
        self, it: GovernedObject, action: Action, answer: Finding | None, policy: Policy, around: Surroundings
    ) -> Finding | None:
        """Return the finding that counts: the answer, or, where there is none or none may count, the built-in one."""
        if action in ("decay", "archive"):
            return None
        if answer is not None and may_look(it, action, policy):
            return without_derived(it, answer, self._derived(it) if answer.evidence else ())
        about = around.of(it)
        return judge(it, action, policy, evidence=about.evidence, survived=about.survived)

    def _refuse(self, ending: JobEnding, it: GovernedObject, why: str) -> None:
        """Let an attempt that brought no readable verdict fail: it is tried again, then dead."""
        outcome = _instead(ending, "failed", error=why)
        self.replaced[ending.job.number] = outcome
        job = ending.job
        if job.attempt + 1 >= job.max_attempts:
            self._change(job, it, "dead", self._stalled(job, it), why)
            return
        delay = job.retry.delay
        self.replaced[job.number] = replace(outcome, delay=delay)
        after = changed(it, next_action_at=self.now + max(delay, timedelta(0)), admitted_version=None)
        self.saved.append((it, after))
        self.entries.append(self.job_entries.moved(job, "failed", it, after, why))

    def _stalled(self, job: Job, it: GovernedObject) -> Concluded:
        return stall(it, cast(Action, job.action), self.writer.policy(it), self.now)

    def _derived(self, it: GovernedObject) -> Collection[str]:
        """Return the names of what rests on an object; most have nothing above them, and that is known already."""
        return derived_names(self.tx, it) if self.above.get(it.number) else ()

    def _keep_evidence(self, job: Job, it: GovernedObject, finding: Finding, around: Surroundings) -> tuple[str, ...]:
        """Keep the evidence of a verdict to be stored, and return the ids of all of it, old and new."""
        given = evidence_of(finding)
        there = {each.reference_key: each.id for each in around.evidence.get(it.number, ())} if given else {}
        fresh = [each for each in given if reference_key(each.reference) not in there]
        writer = self.writer.acting(_by(job))
        pieces = new_evidence(writer, it, fresh, self._derived(it)) if fresh else []
        self.evidence += pieces
        known = [there[key] for each in given if (key := reference_key(each.reference)) in there]
        return tuple(dict.fromkeys([*known, *(each.id for each in pieces)]))

    # -- write -----------------------------------------------------------------------------------------------------

    def _change(
        self,
        job: Job,
        it: GovernedObject,
        verb: ObjectVerb,
        done: Concluded,
        reason: str,
        *,
        kind: EventKind | None = "scheduler_job",
        evidence: tuple[str, ...] = (),
        facts: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Keep a change to be written, with the name of the job that has brought it."""
        ids = (*evidence, f"job:{job.id}")
        self.changes.append(Change(it, done, verb, ids, kind, facts, ended=True, by=_by(job, reason)))

    def _write_all(self) -> None:
        """Write what was decided, and then what follows for other objects: reviews, questions, a rollback, gates."""
        self.tx.objects.save(self.saved)
        self._remember(after for _, after in self.saved)  # one of them may be questioned below
        self.tx.evidence.add(self.evidence)
        written = self.writer.save_all(self.changes) if self.changes else []
        self.tx.audit.append_many(self.entries)
        self._remember(written)
        for change, after in zip(self.changes, written, strict=True):
            self._follow(change, after)

    def _follow(self, change: Change, after: GovernedObject) -> None:
        before, writer = change.before, self.writer.acting(change.by or self.writer.by)
        after = with_reviews(writer, before, after)
        self._remember([after])
        if after.state == FORGED and before.state != FORGED:
            begin_rollback(writer, after)
            self._remember(self.tx.objects.by_number(each.number for each in self.objects.values()).values())
        else:
            above = self.above.get(after.number, ())
            self._remember(question_dependents(writer, after, list(self.objects.values()), above))
        if before.kind == "cognition" and before.standing != after.standing:
            gate_changed(self.tx, after.owner, None, self.now)

    def _remember(self, written: Iterable[GovernedObject]) -> None:
        self.objects.update({(it.owner, it.kind, it.id): it for it in written})


def _by(job: Job, reason: str = "") -> By:
    return By(f"worker/{job.worker_id}", reason[:LONGEST_REASON], job=job.id)


def _acted_on(ending: JobEnding, it: GovernedObject) -> GovernedObject:
    """Return the object as its surroundings are read: by the action of the job that has ended."""
    return changed(it, next_action=cast(Action, ending.job.action))


def verdict_in(result: str | None) -> Answer | None:
    """Return the answer inside a result; None where there is none, so that the built-in verifier judges."""
    if result is None:
        return None
    answer = json.loads(result)
    is_answer = isinstance(answer, Mapping) and ("verdict" in answer or ATTEND in answer)
    return answer_from(answer) if is_answer else None


def is_lost(outcome: Outcome) -> bool:
    """Return whether a verifier did answer, but its answer could not be kept: no other may take its place."""
    return outcome.ending == "succeeded" and outcome.result is None and outcome.error is not None


def with_cost(ending: JobEnding) -> JobEnding:
    """Return an ending that says what it has cost: as its verdict reports it; the built-in verifier costs nothing.

    Whatever becomes of the verdict, it is charged. Without a report the attempt pays what it has reserved.
    """
    outcome = ending.outcome
    if ending.put_back or outcome.ending != "succeeded" or outcome.spent is not None or ending.job.budget is None:
        return ending
    if is_lost(outcome):
        return ending
    try:
        answer = verdict_in(outcome.result)
    except InvalidInput:
        return ending
    if answer is None:
        return ending if outcome.by is not None else replace(ending, outcome=replace(outcome, spent={}))
    cost = {} if isinstance(answer, Attend) else answer.cost
    return replace(ending, outcome=replace(outcome, spent=dict(cost))) if cost else ending


def verifier_of(job: Job, outcome: Outcome, answer: Finding | None) -> str:
    """Return who gave a verdict: the caller of a door, which cannot be two; else the verifier by its name."""
    if answer is None:
        return BUILT_IN
    return outcome.by or answer.verifier or f"worker/{job.worker_id}"


def _instead(ending: JobEnding, kind: Ending, *, error: str | None, delay: timedelta | None = None) -> Outcome:
    """Return another outcome of the same attempt: what it has spent and logged stays."""
    return Outcome(kind, error=error, delay=delay, spent=ending.outcome.spent, lines=ending.outcome.lines)
