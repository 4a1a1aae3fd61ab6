"""Quotas of tenants: counted in the transaction that adds a job, behind the tenant's own lock."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from horae.actions.jobs.jobs import enqueue_many, with_known
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.jobs.job import SYSTEM, check_run_at
from horae.errors import Conflict, PastDue, QuotaExceeded

if TYPE_CHECKING:
    from horae.ports.store import Tx
    from horae.ports.world import World

# With so much room left an exact count is not needed: that many requests are never under way at once.
AMPLE = 50_000
COUNTED_EVERY = 0.4  # seconds
MOST_OWNERS = 10_000  # of whom the room is remembered


def enqueue_within(
    world: World,
    requests: Sequence[Request],
    *,
    owner: str,
    allowed: int,
    queues: Collection[str] = (),
    actor: str = SYSTEM,
    room_left: RoomLeft | None = None,
) -> list[Enqueued]:
    """Enqueue for a tenant; refuse it where more than *allowed* of its jobs would be unfinished (0: no limit).

    With *queues*, a request that is answered with a job of another queue (its unique name is taken there) is refused.
    Where a request is strict, a time in the past is refused (S0-9), unless this repeats one that was in time (S0-8).
    """
    if not may_meet_another_queue(requests, queues) and has_ample_room(world, owner, allowed, room_left):
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


class RoomLeft:
    """Owners that had ample room a moment ago, so that not every enqueue counts the same jobs again.

    What this process adds is subtracted. What other processes add in so short a time is far less than ``AMPLE``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, float]] = {}  # more than ample by so much, until when

    def take(self, owner: str, now: float, count: int = 1) -> bool:
        """Return whether the owner is known to have ample room for so many more."""
        with self._lock:
            spare, until = self._known.get(owner, (0, 0.0))
            if now >= until or spare < count:
                return False
            self._known[owner] = (spare - count, until)
            return True

    def keep(self, owner: str, spare: int, now: float) -> None:
        with self._lock:
            if len(self._known) >= MOST_OWNERS:
                self._known.clear()
            self._known[owner] = (spare, now + COUNTED_EVERY)


def has_ample_room(world: World, owner: str, allowed: int, room_left: RoomLeft | None = None) -> bool:
    """Return whether an owner has so much room that an exact count is not needed."""
    if not allowed:
        return True
    now = world.clock.monotonic()
    if room_left is not None and room_left.take(owner, now):
        return True
    spare = allowed - world.route(owner=owner).store.read(lambda tx: tx.jobs.unfinished(owner, allowed)) - AMPLE
    if room_left is not None and spare > 0:
        room_left.keep(owner, spare, now)
    return spare > 0


def may_meet_another_queue(requests: Sequence[Request], queues: Collection[str]) -> bool:
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
