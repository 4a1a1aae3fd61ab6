"""What must hold for every governed object, whatever crashed: checked from rows and entries alone (G1 to G10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.governance.machines import MACHINES
from horae.core.governance.objects import GovernedObject, ObjectVersion
from horae.core.governance.policies import Policy
from horae.core.governance.proposals import content_digest
from horae.core.governance.transitions import SETTLED
from horae.core.jobs.job import Job
from horae.core.time.instants import iso


@dataclass(frozen=True, slots=True)
class Broken:
    """One thing that does not hold, by the name of the rule."""

    rule: str
    about: str
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        listed = ", ".join(f"{name}={value}" for name, value in self.facts.items())
        return f"{self.rule}: {self.about} ({listed})"


def check_object(
    it: GovernedObject,
    policy: Policy,
    job: Job | None,
    entries: Sequence[Entry],
    versions: Sequence[ObjectVersion],
) -> list[Broken]:
    """Check one object: *job* is its planned one while it lives, *entries* and *versions* are the oldest first."""
    found = [*_one_job(it, job), *_counters(it, policy)]
    return found + _history(it, entries) + _contents(it, entries, versions)


def _broken(rule: str, it: GovernedObject, **facts: Any) -> Broken:
    return Broken(rule, f"{it.owner} {it.kind}:{it.id}", facts)


def _one_job(it: GovernedObject, job: Job | None) -> Iterable[Broken]:
    """Decision 1, G6: a live job where something is planned, at its time, and none elsewhere."""
    if it.next_action is None:
        if job is not None and job.state == "queued":
            yield _broken("decision 1", it, planned=None, job=job.id)
        rests = it.is_final or it.status == "archived" or it.is_unknowable or it.protected or it.rejected
        if not rests:
            yield _broken("decision 1", it, state=it.state, planned=None)
        return
    if job is None or (job.owner, job.object_type, job.object_id) != (it.owner, it.kind, it.id):
        yield _broken("decision 1", it, planned=it.next_action, job=it.job)
        return
    if job.run_at != it.next_action_at:
        planned = None if it.next_action_at is None else iso(it.next_action_at)
        yield _broken("G6 next_action_at", it, planned=planned, run_at=iso(job.run_at), state=job.state)
    if job.state == "queued" and job.action != it.next_action:
        yield _broken("decision 1", it, action=it.next_action, planned=job.action)


def _counters(it: GovernedObject, policy: Policy) -> Iterable[Broken]:
    if it.is_uncertain and it.verify_used > policy.verify_budget:
        yield _broken("budget of an episode", it, used=it.verify_used, budget=policy.verify_budget)
    if it.reinstate_checks > len(policy.reinstate_after):
        yield _broken("G4 checks of a life", it, checks=it.reinstate_checks)
    if it.is_uncertain and (it.unknown_type is None or it.mode is None):
        yield _broken("uncertain needs type and mode", it, unknown_type=it.unknown_type, mode=it.mode)


def _history(it: GovernedObject, entries: Sequence[Entry]) -> list[Broken]:
    """G1, G2 and the audit: edges follow one another along the machine and lead to the present state."""
    found: list[Broken] = []
    machine, state, verified = MACHINES[it.kind], None, None
    for each in entries:
        if not each.evidence:
            found.append(_broken("an entry names evidence or none", it, verb=each.verb))
        if it.risk == "high" and each.risk == "high" and each.decision is None:
            found.append(_broken("high risk links its decision", it, verb=each.verb))
        before, after = _state_of(each.before), _state_of(each.after)
        is_edge = each.event_kind in ("state_transition", "rollback")
        if after is None or not is_edge:
            continue
        if each.verb == "proposed":
            legal = after == machine.start
        else:
            legal = before == state and machine.arrows.get((before or "", each.verb)) == after
        if not legal:
            found.append(_broken("G1 legal transitions", it, verb=each.verb, before=before, after=after, was=state))
        state = after
        verified = each.at if each.verb in SETTLED else verified
    if entries and state != it.state:
        found.append(_broken("the audit leads to the state", it, audit=state, state=it.state))
    if entries and it.verified_at != verified:
        found.append(
            _broken("G2 only a verdict moves verified_at", it, audit=_iso(verified), kept=_iso(it.verified_at))
        )
    return found


def _contents(it: GovernedObject, entries: Sequence[Entry], versions: Sequence[ObjectVersion]) -> list[Broken]:
    """G8: the content is in a version, as the audit has seen it."""
    if it.erased_at is not None:
        kept = [each.version for each in versions if each.content is not None or each.content_key is not None]
        return [_broken("erased content is gone", it, versions=kept)] if kept else []
    with_content = [each for each in versions if each.content is not None and each.content_key is not None]
    if not with_content:
        return [_broken("G8 restorable", it, versions=len(versions))] if versions else []
    first = with_content[0]
    digest = content_digest(first.content_key or "", first.content or "")
    seen = next((each.after.get("content_digest") for each in entries if each.verb == "proposed"), digest)
    return [] if digest == first.digest == seen else [_broken("G8 proven by the audit", it, version=first.version)]


def _state_of(facts: Mapping[str, Any]) -> str | None:
    status, epistemic = facts.get("status"), facts.get("epistemic_state")
    return None if status is None else f"{status}/{epistemic}" if epistemic else str(status)


def _iso(at: datetime | None) -> str | None:
    return None if at is None else iso(at)
