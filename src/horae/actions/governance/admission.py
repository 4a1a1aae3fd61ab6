"""The start of a job on a governed object: through the gates of high risk, or back to its queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from horae.actions.governance.entries import JobEntries
from horae.actions.governance.gates import ASK_AFTER, Gated, gate_decision, put_back_until, read_gates
from horae.actions.governance.object_writer import facts_of
from horae.actions.governance.reviews import open_for_object
from horae.core.audit.entries import Entry
from horae.core.governance.objects import GovernedObject, changed
from horae.core.jobs.job import Job, Lease
from horae.ports.claims import PutBack
from horae.ports.store import Tx
from horae.ports.world import HasDice

Name = tuple[str, str, str]


def admit(world: HasDice, tx: Tx, jobs: Sequence[Job], now: datetime) -> list[PutBack]:
    """Admit the jobs of stored objects through their gates; those of other objects start with an entry."""
    objects = lock_objects(tx, jobs)
    planned = {job.number: it for job in jobs if (it := objects.get(name_of(job))) and it.job == job.number}
    gates = read_gates(tx, list(planned.values()))
    job_entries = JobEntries(world, now)
    entries: list[Entry] = []
    returned: list[PutBack] = []
    saved: list[tuple[GovernedObject, GovernedObject]] = []
    for job in jobs:
        it = planned.get(job.number)
        if it is None:
            entries.append(job_entries.entry(job, "admitted"))
            continue
        if gates.blocks(it):
            after, reason = stop(world, tx, job, it, gates, now)
            assert after.next_action_at is not None
            returned.append(PutBack(job.number, job.token, after.next_action_at, reason))
            entries.append(job_entries.moved(job, "put_back", it, after, reason))
        else:
            after = changed(it, admitted_version=it.version)
            ruling = gates.rulings.get(it.number)
            if ruling is not None:
                after = changed(after, decision=gate_decision(world, tx, it, job.action or "", ruling, now))
            entries.append(job_entries.entry(job, "admitted", it=after, after=facts_of(it)))
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
    until = put_back_until(it, now)
    after = changed(it, decision=decision, put_backs=it.put_backs + 1, next_action_at=until, admitted_version=None)
    if after.put_backs == ASK_AFTER:
        after, _ = open_for_object(world, tx, after, "gate", now, decision=tx.decisions.get(it.owner, decision))
    return after, ruling.reason


def follow(tx: Tx, jobs: Sequence[Job], run_at: datetime) -> None:
    """Let the objects of jobs that go back unasked be due when their jobs are."""
    objects = lock_objects(tx, jobs)
    held = tx.jobs.lock_held(Lease(job.number, job.token) for job in jobs if not job.cancel_requested)
    waiting = [(job, objects.get(name_of(job))) for job in jobs if job.number in held]
    planned = [it for job, it in waiting if it is not None and it.job == job.number]
    tx.objects.save([(it, changed(it, next_action_at=run_at, admitted_version=None)) for it in planned])


def name_of(job: Job) -> Name:
    return job.owner, job.object_type or "", job.object_id or ""


def lock_objects(tx: Tx, jobs: Sequence[Job]) -> dict[Name, GovernedObject]:
    """Lock the stored objects that jobs name."""
    locked = tx.objects.lock(tx.objects.kinds_by_number(name_of(job) for job in jobs))
    return {(each.owner, each.kind, each.id): each for each in locked.values()}
