"""The verbs that end an attempt: settle, ack, fail, release, and what follows when a lease ran out."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs.jobs import entry_of, get, truncate
from horae.actions.jobs.rules import Drafted, settle_by_rules, split
from horae.actions.looks import busy, known_to, left_since, look
from horae.actions.shards import ask_all, group_by_shard
from horae.core.audit.entries import Entry
from horae.core.governance.budgets import amounts_from
from horae.core.jobs.job import JOB, SYSTEM, Change, Job, Outcome, Settlement, settlement
from horae.core.jobs.machinery import refuse_own
from horae.core.jobs.payloads import encode, label
from horae.core.time.instants import aware
from horae.errors import InvalidInput, LeaseLost
from horae.ports.world import World

log = logging.getLogger("horae.endings")


def settle(world: World, endings: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End a batch of held jobs; return the change of each by id, None where the lease was lost.

    The jobs are the values that their claim returned; the next state is decided from them. An ending that is missing
    from the answer could not be written now, although others were: try it again.
    """
    if world.cluster is not None:
        return _settle_by_map(world, endings)
    now = world.clock.now()
    settlements = [settlement(job, outcome, now=now, roll=world.dice.roll()) for job, outcome in endings]
    return _settle(world, [job for job, _ in endings], settlements, now)


def _settle_by_map(world: World, endings: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End held jobs of a cluster where they are; one that is on the way is missing from the answer: try it again."""
    changes = _settle_each(world, endings)
    lost = [each for each in endings if each[0].id in changes and changes[each[0].id] is None]
    if not lost:
        return changes
    before = look(world, [job.number for job, _ in lost])
    there = [each for each in lost if each[0].number not in before.away]
    kept = {job: change for job, change in changes.items() if change is not None} | _settle_each(world, there)
    left = left_since(world, before, [job.number for job, _ in there if kept.get(job.id) is None])
    again = {job.id for job, _ in there if job.number in left}
    return {job: change for job, change in kept.items() if job not in again}


def _settle_each(world: World, endings: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End jobs in the databases that keep them by the known map."""
    changes: dict[str, Change | None] = {}
    for shard, few in group_by_shard(world, endings, lambda each: each[0].id):
        changes |= settle(shard, few)
    return changes


def _settle(
    world: World, jobs: Sequence[Job], settlements: Sequence[Settlement], now: datetime
) -> dict[str, Change | None]:
    plain, ruled = split(world, jobs, settlements)
    changes: dict[str, Change | None] = {}
    if plain:
        rejected = world.route().store.settle([done for _, done in plain], now=now)
        changes = {job.id: None if job.number in rejected else done.change for job, done in plain}
    try:
        changes |= _settle_ruled(world, ruled, now) if ruled else {}
    except Exception as problem:
        if not plain:
            raise
        log.warning("%d endings are to be written again, one by one: %s", len(ruled), problem)
    if any(change is not None and change.state == "queued" for change in changes.values()):
        again = {job.queue for job in jobs if (change := changes.get(job.id)) is not None and change.state == "queued"}
        world.route().store.wake(again)  # a worker that sleeps until the next due time may have to wake earlier now
    return changes


def _settle_ruled(world: World, ruled: Sequence[Drafted], now: datetime) -> dict[str, Change | None]:
    """Write the endings of jobs that a rule concerns, and what the rules write about them."""
    written = settle_by_rules(world, ruled, now)
    return {job.id: written[job.number].change if job.number in written else None for job, _ in ruled}


def ack(
    world: World,
    job_id: str,
    token: int,
    *,
    result: Any = None,
    next_action_at: datetime | None = None,
    audit_event_id: str | None = None,
    spent: Mapping[str, int] | None = None,
    by: str | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """End a job as succeeded; only its current holder may."""
    text = None if result is None else encode(result, "result", world.max_payload_bytes)
    due = None if next_action_at is None else aware(next_action_at, "next_action_at")
    link = None if audit_event_id is None else label(audit_event_id, "audit event id", 100)
    outcome = Outcome("succeeded", result=text, next_action_at=due, audit_event_id=link, spent=_spent(spent), by=by)
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
    spent: Mapping[str, int] | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """End an attempt as failed; the job is retried after *retry_delay* or by its policy, or is dead at the cap."""
    if retry_delay is not None and retry_delay < timedelta(0):
        raise InvalidInput("delay_negative", delay=retry_delay.total_seconds())
    outcome = Outcome(
        "failed",
        error=truncate(error),
        delay=retry_delay,
        from_run_at=from_run_at,
        final=final,
        spent=_spent(spent),
    )
    return _end(world, job_id, token, outcome, owner=owner, queues=queues)


def release(
    world: World,
    job_id: str,
    token: int | None = None,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    spent: Mapping[str, int] | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """Give a running job back to its queue at once; no attempt is counted.

    A worker gives its token. An operator gives none: then the current holder loses the job.
    """
    outcome = Outcome("released", error=truncate(reason) or None, spent=_spent(spent))
    if token is not None:
        return _end(world, job_id, token, outcome, owner=owner, queues=queues)
    job = get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    JOB.after(job.state, "released")
    return _end(world, job_id, job.token, outcome, entry_of(world, "release", job, actor, reason), owner=owner)


def _spent(given: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if given is None else amounts_from(given)


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
    if job.object_type is not None and outcome.result is not None:
        from horae.actions.governance.endings import verdict_in

        verdict_in(outcome.result)  # refuses at once what cannot be read
    now = world.clock.now()
    done = settlement(job, outcome, now=now, roll=world.dice.roll())
    final = done if entry is None else replace(done, entry=entry)
    known, [keeper] = None if world.cluster is None else known_to(world), world.within(id=job.id)
    if _settle(keeper, [job], [final], now)[job.id] is None:
        if known is not None and left_since(world, known, [job.number]):
            raise busy(world, job.number)
        raise LeaseLost(job.id, token)
    return get(world, job_id)


def lose_expired(world: World, limit: int = 100) -> list[tuple[Job, bool]]:
    """End attempts whose lease ran out; return the jobs as they were and whether each is dead now."""
    if world.cluster is not None:
        return [each for found in ask_all(world, lambda shard: lose_expired(shard, limit)) for each in found]
    return lose(world, world.route().store.find_expired(now=world.clock.steady(), limit=limit))


def lose(world: World, silent: Sequence[Job]) -> list[tuple[Job, bool]]:
    """End the attempts of these jobs as lost; one whose lease has been renewed since is left alone."""
    if not silent:
        return []
    now, steady = world.clock.now(), world.clock.steady()
    endings = [settlement(job, Outcome("lost"), now=now, roll=world.dice.roll()) for job in silent]
    plain, ruled = split(world, silent, [replace(ending, expired_before=steady) for ending in endings])
    changes = _lose_ruled(world, ruled, now) if ruled else {}
    if plain:
        rejected = world.route().store.settle([done for _, done in plain], now=now)
        changes |= {job.number: done.change for job, done in plain if job.number not in rejected}
    lost = [(job, changes[job.number].state == "dead") for job in silent if job.number in changes]
    world.route().store.wake({job.queue for job, dead in lost if not dead})
    return lost


def _lose_ruled(world: World, ruled: Sequence[Drafted], now: datetime) -> dict[int, Change]:
    """End lost attempts that a rule concerns; one that cannot be written now is found again by the next pass."""
    try:
        return {number: done.change for number, done in settle_by_rules(world, ruled, now).items()}
    except Exception as problem:  # the other losses must not wait for it
        if len(ruled) > 1:
            return {number: change for each in ruled for number, change in _lose_ruled(world, [each], now).items()}
        log.exception("the lost attempt at %s cannot be ended now: %s", ruled[0][0].id, problem)
        return {}


def close(world: World, job: Job, outcome: Outcome) -> bool:
    """End a running job in the place of its holder, whether or not its lease has run out; its token is the fence."""
    now = world.clock.now()
    ending = replace(settlement(job, outcome, now=now, roll=world.dice.roll()), expired_before=None)
    return _settle(world, [job], [ending], now)[job.id] is not None
