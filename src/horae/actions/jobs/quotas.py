"""Quotas of tenants: counted in the transaction that adds a job, behind the tenant's own lock."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from horae.actions.jobs.jobs import enqueue_many, with_known
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.jobs.job import SYSTEM, check_run_at
from horae.errors import Conflict, PastDue, QuotaExceeded
from horae.ports import Tx, World

# With so much room left an exact count is not needed: that many requests are never under way at once.
AMPLE = 50_000


def enqueue_within(
    world: World,
    requests: Sequence[Request],
    *,
    owner: str,
    allowed: int,
    queues: Collection[str] = (),
    actor: str = SYSTEM,
) -> list[Enqueued]:
    """Enqueue for a tenant; refuse it where more than *allowed* of its jobs would be unfinished (0: no limit).

    With *queues*, a request that is answered with a job of another queue (its unique name is taken there) is refused.
    Where a request is strict, a time in the past is refused (S0-9), unless this repeats one that was in time (S0-8).
    """
    if not _may_meet_another_queue(requests, queues) and _has_ample_room(world, owner, allowed):
        with suppress(PastDue):  # it may repeat a request that was in time
            return enqueue_many(world, requests, actor=actor)

    def write(tx: Tx) -> list[Enqueued]:
        if not allowed:
            return _check_queues(tx, _enqueue_in_time(tx, world, requests, actor), queues)
        tx.owners.lock(owner, world.clock.now())
        there = tx.jobs.unfinished(owner, allowed)
        placed = _check_queues(tx, _enqueue_in_time(tx, world, requests, actor), queues)
        if there + sum(not each.deduplicated for each in placed) > allowed:
            raise QuotaExceeded("jobs", allowed, "too_many_jobs", owner=owner, unfinished=there)
        return placed

    placed = world.route(owner=owner).store.transact(write)
    world.route(owner=owner).store.wake({request.queue for request in requests})
    return with_known(world, placed)


def _has_ample_room(world: World, owner: str, allowed: int) -> bool:
    return (
        not allowed
        or allowed - world.route(owner=owner).store.read(lambda tx: tx.jobs.unfinished(owner, allowed)) > AMPLE
    )


def _may_meet_another_queue(requests: Sequence[Request], queues: Collection[str]) -> bool:
    """Return whether an answer may be a job of another queue: a unique name counts over all queues, a key does not."""
    return bool(queues) and any(request.unique is not None for request in requests)


def _check_queues(tx: Tx, placed: list[Enqueued], queues: Collection[str]) -> list[Enqueued]:
    """Refuse to answer with a job of a queue that the caller does not see; the whole transaction is undone."""
    for each in placed if queues else ():
        known = tx.jobs.get(each.number) if each.deduplicated else None
        if known is not None and known.queue not in queues:
            raise Conflict("unique_name_in_other_queue")
    return placed


def _enqueue_in_time(tx: Tx, world: World, requests: Sequence[Request], actor: str) -> list[Enqueued]:
    """Store requests; refuse all of them where a strict one is late and new."""
    placed = enqueue_many(world, [replace(each, strict=False) for each in requests], tx=tx, actor=actor)
    for request, each in zip(requests, placed, strict=True):
        if request.strict and request.run_at is not None and not each.deduplicated:
            check_run_at(request.run_at, now=world.clock.now(), strict=True)
    return placed
