"""What the end of a job means for its object: a verdict, a retry, a stall, an ending that came too late."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from horae.actions.governance.entering import JobEntries, masked
from horae.actions.governance.gating import gate_changed, read_gates
from horae.actions.governance.judging import evidence_of, keep_evidence, without_derived
from horae.actions.governance.quarantine import question_dependents, with_reviews
from horae.actions.governance.questions import ask_agent, silence
from horae.actions.governance.rollbacks import FORGED, begin_rollback
from horae.actions.governance.starting import Name, lock_objects, stop
from horae.actions.governance.surroundings import Surroundings, read_surroundings, why_kept
from horae.actions.governance.writing import By, Change, ObjectWriter
from horae.core.audit.entries import Entry
from horae.core.governance.answers import ATTEND, Answer, Attend, answer_from
from horae.core.governance.entries import ObjectVerb
from horae.core.governance.machines import Action
from horae.core.governance.objects import GovernedObject
from horae.core.governance.policies import Policy
from horae.core.governance.timers import LOOKS, may_look
from horae.core.governance.transitions import conclude, overtaken, stall
from horae.core.governance.verdicts import Finding, judge
from horae.core.jobs.job import Job, Outcome
from horae.errors import InvalidInput
from horae.ports import HasDice, JobEnding, Tx

BUILT_IN = "built-in"
VERBS: Mapping[str, ObjectVerb] = {
    "succeeded": "acknowledged", "failed": "failed", "timed_out": "failed", "lost": "lost", "snoozed": "released",
    "released": "released", "cancelled": "ended", "skipped": "ended",
}  # fmt: skip


def settle(world: HasDice, tx: Tx, endings: Sequence[JobEnding], now: datetime) -> Mapping[int, Outcome]:
    """Write what endings mean for their objects; return outcomes that take the place of others."""
    objects = lock_objects(tx, [each.job for each in endings], with_dependents=True)
    return _Settling(world, tx, now, objects).settle(endings)


class _Settling:
    """The endings of one transaction, and the objects that they are about, which are locked."""

    def __init__(self, world: HasDice, tx: Tx, now: datetime, objects: dict[Name, GovernedObject]) -> None:
        self.world = world
        self.tx = tx
        self.now = now
        self.objects = objects
        self.told = JobEntries(world, now)
        self.replaced: dict[int, Outcome] = {}
        self.entries: list[Entry] = []

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
        self.tx.audit.append_many(self.entries)
        return self.replaced

    def _planned(self, job: Job) -> GovernedObject | None:
        """Return the stored object whose planned job this is."""
        it = self.objects.get((job.owner, job.object_type or "", job.object_id or ""))
        return it if it is not None and it.job == job.number and not it.is_final else None

    def _plain(self, ending: JobEnding) -> Entry:
        """Return the entry about a job whose object is stored nowhere, or has another job by now."""
        verb: ObjectVerb = "dead" if ending.change.state == "dead" else VERBS[ending.outcome.ending]
        after: dict[str, Any] = {"state": ending.change.state}
        if ending.outcome.audit_event_id is not None:
            after["audit_event_id"] = ending.outcome.audit_event_id
        reason = ending.change.error or ending.outcome.error
        it = self.objects.get((ending.job.owner, ending.job.object_type or "", ending.job.object_id or ""))
        if it is not None and it.is_final and ending.change.state == "queued" and not ending.put_back:
            gone = "its object was retracted meanwhile"  # nobody needs another attempt
            self.replaced[ending.job.number] = Outcome("cancelled", error=gone, spent=ending.outcome.spent)
            after["state"] = "cancelled"
        if it is not None and it.erased_at is not None:  # what a late worker says about it must not come back
            told = self.replaced.get(ending.job.number, ending.outcome)
            self.replaced[ending.job.number] = replace(told, result=None, error=None)
            reason = None
        return self.told.entry(ending.job, "put_back" if ending.put_back else verb, after=after, reason=reason)

    # -- what becomes of the object --------------------------------------------------------------------------------

    def _come_back(self, ending: JobEnding, it: GovernedObject) -> None:
        """Follow a job that is queued again: the object's next action is due when the job is."""
        after = replace(it, next_action_at=ending.change.run_at, admitted_version=None)
        self._save(it, after)
        verb: ObjectVerb = "put_back" if ending.put_back else VERBS[ending.outcome.ending]
        reason = ending.change.error or ending.outcome.error
        self.entries.append(self.told.moved(ending.job, verb, it, after, reason))

    def _stop(self, ending: JobEnding, it: GovernedObject) -> None:
        """Apply nothing where a gate has closed since the job was admitted; it goes back."""
        after, reason = stop(self.world, self.tx, ending.job, it, read_gates(self.tx, [it]), self.now)
        assert after.next_action_at is not None
        self._save(it, after)
        delay = after.next_action_at - self.now
        self.replaced[ending.job.number] = Outcome("snoozed", error=reason, delay=delay, spent=ending.outcome.spent)
        self.entries.append(self.told.moved(ending.job, "put_back", it, after, reason))

    def _stall(self, ending: JobEnding, it: GovernedObject) -> None:
        """Keep an object going whose job is dead or was cancelled: its time rules are planned."""
        dead = ending.change.state == "dead"
        reason = masked(ending.job, ending.change.error or ending.outcome.error)
        writer = self._writer(ending.job, reason)
        done = stall(it, cast(Action, ending.job.action), writer.policy(it), self.now)
        verb: ObjectVerb = "dead" if dead else "ended"
        self._write(writer, Change(it, done, verb, (f"job:{ending.job.id}",), "scheduler_job", ended=True))

    def _conclude(self, ending: JobEnding, it: GovernedObject, around: Surroundings) -> None:
        job, outcome = ending.job, ending.outcome
        action = cast(Action, job.action)
        try:
            answer = verdict_in(outcome.result)
        except InvalidInput as problem:
            self._refuse(ending, it, str(problem))
            return
        if answer is None and action in LOOKS:
            answer = silence(self.tx, job, self.now)
        writer = self._writer(job, answer.note if isinstance(answer, Finding) else "")
        policy = writer.policy(it)
        facts: dict[str, Any] = {"action": action}
        if outcome.audit_event_id is not None:
            facts["audit_event_id"] = outcome.audit_event_id
        if it.admitted_version is not None and it.version != it.admitted_version:
            done = overtaken(it, action, policy, self.now)
            evidence = (f"job:{job.id}",)
            self._write(writer, Change(it, done, "overtaken", evidence, "scheduler_job", facts, ended=True))
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
        ids = () if answer is None else keep_evidence(writer, it, evidence_of(answer))
        if finding is not None:
            facts |= {"verdict": finding.verdict, "verifier": surroundings.verifier}
        self._write(writer, Change(it, done, "unchanged", (*ids, f"job:{job.id}"), None, facts, ended=True))

    def _think(self, ending: JobEnding, it: GovernedObject, attend: Attend) -> None:
        """Let an agent think about it: the job goes back until the agent has answered, or its time is over."""
        until = ask_agent(self.tx, ending.job, it, attend, self.now)
        after = replace(it, next_action_at=until, admitted_version=None)
        self._save(it, after)
        reason, outcome = f"{attend.lane} thinks about it", ending.outcome
        self.replaced[ending.job.number] = Outcome(
            "snoozed", error=reason, delay=until - self.now, spent=outcome.spent, audit_event_id=outcome.audit_event_id
        )
        self.entries.append(self.told.moved(ending.job, "released", it, after, reason))

    def _finding(
        self, it: GovernedObject, action: Action, answer: Finding | None, policy: Policy, around: Surroundings
    ) -> Finding | None:
        """Return the finding that counts: the answer, or, where there is none or none may count, the built-in one."""
        if action in ("decay", "archive"):
            return None
        if answer is not None and may_look(it, action, policy):
            return without_derived(self.tx, it, answer)
        about = around.of(it)
        return judge(it, action, policy, evidence=about.evidence, survived=about.survived)

    def _refuse(self, ending: JobEnding, it: GovernedObject, why: str) -> None:
        """Let an attempt that brought no readable verdict fail: it is tried again, then dead."""
        outcome = Outcome("failed", error=why, spent=ending.outcome.spent)
        self.replaced[ending.job.number] = outcome
        job = ending.job
        if job.attempt + 1 >= job.max_attempts:
            writer = self._writer(job, why)
            done = stall(it, cast(Action, job.action), writer.policy(it), self.now)
            self._write(writer, Change(it, done, "dead", (f"job:{job.id}",), "scheduler_job", ended=True))
            return
        delay = job.retry.delay
        self.replaced[job.number] = replace(outcome, delay=delay)
        after = replace(it, next_action_at=self.now + max(delay, timedelta(0)), admitted_version=None)
        self._save(it, after)
        self.entries.append(self.told.moved(job, "failed", it, after, why))

    # -- write -----------------------------------------------------------------------------------------------------

    def _writer(self, job: Job, reason: str) -> ObjectWriter:
        return ObjectWriter(self.world, self.tx, By(f"worker/{job.worker_id}", reason[:4000], job=job.id), self.now)

    def _save(self, before: GovernedObject, after: GovernedObject) -> None:
        self.tx.objects.save([(before, after)])
        self._remember(after)

    def _write(self, writer: ObjectWriter, change: Change) -> None:
        before = change.before
        after = with_reviews(writer, before, writer.save(change))
        self._remember(after)
        if after.state == FORGED and before.state != FORGED:
            begin_rollback(writer, after)
            fresh = self.tx.objects.by_number(each.number for each in self.objects.values())
            self.objects.update({(it.owner, it.kind, it.id): it for it in fresh.values()})
        else:
            for questioned in question_dependents(writer, after, list(self.objects.values())):
                self._remember(questioned)
        if before.kind == "cognition" and before.standing != after.standing:
            gate_changed(self.tx, after.owner, None, self.now)

    def _remember(self, after: GovernedObject) -> None:
        self.objects[after.owner, after.kind, after.id] = after


def _acted_on(ending: JobEnding, it: GovernedObject) -> GovernedObject:
    """Return the object as its surroundings are read: by the action of the job that has ended."""
    return replace(it, next_action=cast(Action, ending.job.action))


def verdict_in(result: str | None) -> Answer | None:
    """Return the answer inside a result; None where there is none, so that the built-in verifier judges."""
    if result is None:
        return None
    answer = json.loads(result)
    is_answer = isinstance(answer, Mapping) and ("verdict" in answer or ATTEND in answer)
    return answer_from(answer) if is_answer else None


def with_cost(ending: JobEnding) -> JobEnding:
    """Return an ending that says what it has cost: as its verdict reports it; the built-in verifier costs nothing.

    Whatever becomes of the verdict, it is charged. Without a report the attempt pays what it has reserved.
    """
    outcome = ending.outcome
    if ending.put_back or outcome.ending != "succeeded" or outcome.spent is not None or ending.job.budget is None:
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
