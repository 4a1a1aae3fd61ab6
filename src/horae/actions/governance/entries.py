"""Entries about jobs that name an object: planned, admitted, put back, acknowledged, failed, lost, dead, renewed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from horae.actions.governance.object_writer import facts_of
from horae.actions.governance.reasons import private_reason
from horae.core.audit.entries import Entry
from horae.core.governance.entries import ObjectVerb
from horae.core.governance.objects import GovernedObject
from horae.core.jobs.job import Job, Lease, NewJob
from horae.core.jobs.masking import mask_text, secrets_of
from horae.core.time.instants import iso
from horae.ports.claims import Renewed
from horae.ports.store import Tx
from horae.ports.world import HasDice, World

LONGEST_REASON = 4000
SCHEDULER = "system/scheduler"


class JobEntries:
    """Makes entries about the jobs of objects, all of one moment."""

    def __init__(self, world: HasDice, now: datetime) -> None:
        self.world = world
        self.now = now

    def entry(
        self,
        job: Job,
        event: ObjectVerb,
        *,
        it: GovernedObject | None = None,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Entry:
        """Return an entry; without *it* the object is stored nowhere, and only the job is known."""
        facts = {"action": job.action, "attempt": job.attempt, "run_at": iso(job.run_at), **(after or {})}
        return Entry(
            self.now,
            actor or f"worker/{job.worker_id}",
            event,
            job.object_type or "",
            job.object_id or "",
            job.owner,
            before=dict(before or {}),
            after=facts,
            evidence=(f"job:{job.id}",),
            event_kind="decision_gate" if event == "put_back" and it is not None and it.put_backs else "scheduler_job",
            risk=None if it is None else it.risk,
            decision=it.decision if it is not None and it.risk == "high" else None,
            job=job.id,
            **private_reason(self.world, masked(job, reason)),
        )

    def moved(
        self, job: Job, event: ObjectVerb, before: GovernedObject, after: GovernedObject, reason: str | None
    ) -> Entry:
        """Return an entry about a job whose object is due at another time now."""
        return self.entry(job, event, it=after, before=facts_of(before), after=facts_of(after), reason=reason)


def masked(job: Job, error: str | None) -> str:
    """Return an error as an entry keeps it: without the secrets of the job's payload, and not too long."""
    return mask_text(error or "", secrets_of(job.payload))[:LONGEST_REASON]


def renew_about_objects(world: World, jobs: Sequence[Job], *, lease: timedelta, by: str) -> Renewed:
    """Extend the leases of jobs that name an object, and write an entry about each, in one transaction."""
    until = world.clock.steady() + lease

    def write(tx: Tx) -> frozenset[int]:
        held = tx.jobs.lock_held(Lease(job.number, job.token) for job in jobs)
        kept = [job for job in jobs if job.number in held]
        job_entries = JobEntries(world, world.clock.now())
        for job in kept:
            tx.ledger.renew(job.number, until)
        tx.audit.append_many(job_entries.entry(job, "renewed", actor=by) for job in kept)
        return frozenset(held)

    held = world.route().store.transact(write, hot=True)
    return Renewed(held, frozenset(job.number for job in jobs if job.number in held and job.cancel_requested))


def planned_entry(job: NewJob, actor: str, now: datetime) -> Entry:
    """Return the entry about a new job that names an object which is stored nowhere; the store adds its id."""
    after = {"action": job.action, "run_at": iso(job.run_at), "queue": job.queue}
    return Entry(
        now, actor, "planned", job.object_type or "", job.object_id or "", job.owner, after=after, evidence=("none",),
        event_kind="scheduler_job",
    )  # fmt: skip
