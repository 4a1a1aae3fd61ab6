"""How much a tenant may have at once; counted in the transaction that adds to it, behind the tenant's own lock."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from horae.actions.jobs import Enqueued, Request, enqueue_many, with_known
from horae.core.jobs import check_run_at
from horae.errors import PastDue, QuotaExceeded
from horae.ports import Tx, World

# With so much room left nobody needs to be counted exactly: that many requests are never under way at once.
AMPLE = 50_000


def enqueue_within(world: World, requests: Sequence[Request], *, owner: str, allowed: int) -> list[Enqueued]:
    """Enqueue for a tenant, unless more than *allowed* of its jobs would be unfinished then; zero allows any number.

    Where a request is strict, a time in the past is refused (S0-9), unless this repeats one that was in time (S0-8).
    """
    if not allowed or allowed - world.store.read(lambda tx: tx.jobs.unfinished(owner, allowed)) > AMPLE:
        with suppress(PastDue):  # perhaps it was there before
            return enqueue_many(world, requests)

    def write(tx: Tx) -> list[Enqueued]:
        if not allowed:
            return _in_time(tx, world, requests)
        tx.owners.lock(owner, world.clock.now())
        there = tx.jobs.unfinished(owner, allowed)
        placed = _in_time(tx, world, requests)
        if there + sum(not each.deduplicated for each in placed) > allowed:
            told = f"{owner} may have {allowed} unfinished jobs at once, and has {there}. Let some end first."
            raise QuotaExceeded("jobs", allowed, told)
        return placed

    placed = world.store.transact(write)
    world.store.wake({request.queue for request in requests})
    return with_known(world, placed)


def _in_time(tx: Tx, world: World, requests: Sequence[Request]) -> list[Enqueued]:
    """Store them; one that is late and was not there before undoes the whole transaction."""
    placed = enqueue_many(world, [replace(each, strict=False) for each in requests], connection=tx.connection)
    for request, each in zip(requests, placed, strict=True):
        if request.strict and request.run_at is not None and not each.deduplicated:
            check_run_at(request.run_at, now=world.clock.now(), strict=True)
    return placed
