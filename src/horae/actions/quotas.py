"""How much a tenant may have at once; counted in the transaction that adds to it, behind the tenant's own lock."""

from __future__ import annotations

from collections.abc import Sequence

from horae.actions.jobs import Enqueued, Request, enqueue_many, with_known
from horae.errors import QuotaExceeded
from horae.ports import Tx, World

# With so much room left nobody needs to be counted exactly: that many requests are never under way at once.
AMPLE = 50_000


def enqueue_within(world: World, requests: Sequence[Request], *, owner: str, allowed: int) -> list[Enqueued]:
    """Enqueue for a tenant, unless more than *allowed* of its jobs would be unfinished then; zero allows any number."""
    if not allowed or allowed - world.store.read(lambda tx: tx.jobs.unfinished(owner, allowed)) > AMPLE:
        return enqueue_many(world, requests)

    def write(tx: Tx) -> list[Enqueued]:
        tx.owners.lock(owner, world.clock.now())
        there = tx.jobs.unfinished(owner, allowed)
        placed = enqueue_many(world, requests, connection=tx.connection)
        if there + sum(not each.deduplicated for each in placed) > allowed:
            told = f"{owner} may have {allowed} unfinished jobs at once, and has {there}. Let some end first."
            raise QuotaExceeded("jobs", allowed, told)
        return placed

    placed = world.store.transact(write)
    world.store.wake({request.queue for request in requests})
    return with_known(world, placed)
