"""The start of a job on a governed object: through the gates of high risk, or back to its queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from horae.actions.governance.entering import JobEntries
from horae.actions.governance.gating import ASK_AFTER, Gated, gate_decision, put_back_until, read_gates
from horae.actions.governance.quarantine import dependents
from horae.actions.governance.reviews import open_for_object
from horae.actions.governance.writing import facts_of
from horae.core.audit.entries import Entry
from horae.core.governance.objects import GovernedObject
from horae.core.jobs.job import Job, Lease
from horae.ports import HasDice, PutBack, Tx

Name = tuple[str, str, str]


def admit(world: HasDice, tx: Tx, jobs: Sequence[Job], now: datetime) -> list[PutBack]:
    """Admit the jobs of stored objects through their gates; those of other objects start with an entry."""
    objects = lock_objects(tx, jobs)
    planned = {job.number: it for job in jobs if (it := objects.get(name_of(job))) and it.job == job.number}
    gates = read_gates(tx, list(planned.values()))
    told = JobEntries(world, now)
    entries: list[Entry] = []
    returned: list[PutBack] = []
    saved: list[tuple[GovernedObject, GovernedObject]] = []
    for job in jobs:
        it = planned.get(job.number)
        if it is None:
            entries.append(told.entry(job, "admitted"))
            continue
        if gates.blocks(it):
            after, reason = stop(world, tx, job, it, gates, now)
            assert after.next_action_at is not None
            returned.append(PutBack(job.number, job.token, after.next_action_at, reason))
            entries.append(told.moved(job, "put_back", it, after, reason))
        else:
            after = replace(it, admitted_version=it.version)
            ruling = gates.rulings.get(it.number)
            if ruling is not None:
                after = replace(after, decision=gate_decision(world, tx, it, job.action or "", ruling, now))
            entries.append(told.entry(job, "admitted", it=after, after=facts_of(it)))
        saved.append((it, after))
    tx.objects.save(saved)
    tx.audit.append_many(entries)
    return returned


def stop(
    world: HasDice, tx: Tx, job: Job, it: GovernedObject, gates: Gated, now: datetime
) -> tuple[GovernedObject, str]:
    """Return an object whose job a gate has stopped, with the time when it comes back, and why.

    After a few times a person is asked.
    """
    ruling = gates.rulings[it.number]
    decision = gate_decision(world, tx, it, job.action or "", ruling, now)
    stopped = {"put_backs": it.put_backs + 1, "next_action_at": put_back_until(it, now), "admitted_version": None}
    after = replace(it, decision=decision, **stopped)  # type: ignore[arg-type]
    if after.put_backs == ASK_AFTER:
        after, _ = open_for_object(world, tx, after, "gate", now, decision=tx.decisions.get(it.owner, decision))
    return after, ruling.reason


def follow(tx: Tx, jobs: Sequence[Job], run_at: datetime) -> None:
    """Let the objects of jobs that go back unasked be due when their jobs are."""
    objects = lock_objects(tx, jobs)
    held = tx.jobs.lock_held(Lease(job.number, job.token) for job in jobs if not job.cancel_requested)
    for job in jobs:
        it = objects.get(name_of(job))
        if it is not None and it.job == job.number and job.number in held:
            tx.objects.save([(it, replace(it, next_action_at=run_at, admitted_version=None))])


def name_of(job: Job) -> Name:
    return job.owner, job.object_type or "", job.object_id or ""


def lock_objects(tx: Tx, jobs: Sequence[Job], *, with_dependents: bool = False) -> dict[Name, GovernedObject]:
    """Lock the stored objects that jobs name, and, where they may be doubted, what rests on them."""
    found = tx.objects.by_name(name_of(job) for job in jobs)
    if not found:
        return {}
    above = dependents(tx, found.values()) if with_dependents else []
    locked = tx.objects.lock([*(each.number for each in found.values()), *above])
    return {(each.owner, each.kind, each.id): each for each in locked.values()}
