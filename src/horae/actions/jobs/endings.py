"""The verbs that end an attempt: settle, ack, fail, release, and what follows when a lease ran out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs.jobs import entry_of, get, truncate
from horae.core.audit.entries import Entry
from horae.core.jobs.job import JOB, SYSTEM, Change, Job, Outcome, Settlement, settlement
from horae.core.jobs.machinery import refuse_own
from horae.core.jobs.payloads import encode, label
from horae.core.time.instants import aware
from horae.errors import InvalidInput, LeaseLost
from horae.ports import World


def settle(world: World, endings: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End a batch of held jobs in one transaction; return the change of each by id, None where the lease was lost.

    The jobs are the values that their claim returned; the next state is decided from them.
    """
    now = world.clock.now()
    settlements = [settlement(job, outcome, now=now, roll=world.dice.roll()) for job, outcome in endings]
    return _settle(world, [job for job, _ in endings], settlements, now)


def _settle(
    world: World, jobs: Sequence[Job], settlements: Sequence[Settlement], now: datetime
) -> dict[str, Change | None]:
    rejected = world.route().store.settle(settlements, now=now)
    changes = {
        job.id: None if job.number in rejected else done.change for job, done in zip(jobs, settlements, strict=True)
    }
    again = {job.queue for job in jobs if (change := changes[job.id]) is not None and change.state == "queued"}
    world.route().store.wake(again)  # a worker that sleeps until the next due time may have to wake earlier now
    return changes


def ack(
    world: World,
    job_id: str,
    token: int,
    *,
    result: Any = None,
    next_action_at: datetime | None = None,
    audit_event_id: str | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """End a job as succeeded; only its current holder may."""
    text = None if result is None else encode(result, "result", world.max_payload_bytes)
    due = None if next_action_at is None else aware(next_action_at, "next_action_at")
    link = None if audit_event_id is None else label(audit_event_id, "audit event id", 100)
    outcome = Outcome("succeeded", result=text, next_action_at=due, audit_event_id=link)
    return _end(world, job_id, token, outcome, owner=owner, queues=queues)


def fail(
    world: World,
    job_id: str,
    token: int,
    error: str,
    *,
    retry_delay: timedelta | None = None,
    from_run_at: bool = False,
    final: bool = False,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """End an attempt as failed; the job is retried after *retry_delay* or by its policy, or is dead at the cap."""
    if retry_delay is not None and retry_delay < timedelta(0):
        raise InvalidInput("delay_negative", delay=retry_delay.total_seconds())
    outcome = Outcome("failed", error=truncate(error), delay=retry_delay, from_run_at=from_run_at, final=final)
    return _end(world, job_id, token, outcome, owner=owner, queues=queues)


def release(
    world: World,
    job_id: str,
    token: int | None = None,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """Give a running job back to its queue at once; no attempt is counted.

    A worker gives its token. An operator gives none: then the current holder loses the job.
    """
    outcome = Outcome("released", error=truncate(reason) or None)
    if token is not None:
        return _end(world, job_id, token, outcome, owner=owner, queues=queues)
    job = get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    JOB.after(job.state, "released")
    return _end(world, job_id, job.token, outcome, entry_of(world, "release", job, actor, reason), owner=owner)


def _end(
    world: World,
    job_id: str,
    token: int,
    outcome: Outcome,
    entry: Entry | None = None,
    *,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    job = get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    if job.state != "running" or job.token != token:
        raise LeaseLost(job.id, token)
    now = world.clock.now()
    done = settlement(job, outcome, now=now, roll=world.dice.roll())
    final = done if entry is None else replace(done, entry=entry)
    if _settle(world, [job], [final], now)[job.id] is None:
        raise LeaseLost(job.id, token)
    return get(world, job_id)


def lose_expired(world: World, limit: int = 100) -> list[tuple[Job, bool]]:
    """End attempts whose lease ran out; return the jobs as they were and whether each is dead now."""
    return lose(world, world.route().store.find_expired(now=world.clock.steady(), limit=limit))


def lose(world: World, silent: Sequence[Job]) -> list[tuple[Job, bool]]:
    """End the attempts of these jobs as lost; one whose lease has been renewed since is left alone."""
    if not silent:
        return []
    now, steady = world.clock.now(), world.clock.steady()
    endings = [settlement(job, Outcome("lost"), now=now, roll=world.dice.roll()) for job in silent]
    settlements = [replace(ending, expired_before=steady) for ending in endings]
    rejected = world.route().store.settle(settlements, now=now)
    lost = [
        (job, done.change.state == "dead")
        for job, done in zip(silent, settlements, strict=True)
        if job.number not in rejected
    ]
    world.route().store.wake({job.queue for job, dead in lost if not dead})
    return lost
