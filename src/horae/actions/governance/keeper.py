"""Actions of stored objects that no worker claims are done here, so that a missing worker never stops ageing."""

from __future__ import annotations

from datetime import timedelta

from horae.actions.jobs.admission import admit
from horae.actions.jobs.endings import settle
from horae.core.governance.objects import GovernedObject
from horae.core.jobs.job import Job, Outcome
from horae.ports.store import Tx
from horae.ports.world import World

UNCLAIMED = timedelta(hours=1)  # after which the built-in verifier does it
LEASE = timedelta(seconds=30)
BATCH = 50
KEEPER = "keeper"


def do_unclaimed(world: World, *, limit: int = BATCH) -> int:
    """Do actions that have been due for an hour without being claimed, by stored evidence alone; return how many.

    Each is claimed, admitted and ended like any other job; a paused queue is left alone.
    """
    due_before = world.clock.now() - UNCLAIMED

    def look(tx: Tx) -> list[GovernedObject]:
        paused = {queue.name for queue in tx.queues.all() if queue.paused_at is not None}
        return tx.objects.unclaimed(due_before, not_in=paused, limit=limit)

    found = world.route().store.read(look)
    taken = [job for it in found if (job := _take(world, it)) is not None]
    started = admit(world, taken)
    if started:
        settle(world, [(job, Outcome("succeeded")) for job in started])
    return len(started)


def _take(world: World, found: GovernedObject) -> Job | None:
    """Claim the job of an object, unless a worker has just done so."""

    def write(tx: Tx) -> Job | None:
        it = tx.objects.lock([found.number]).get(found.number)
        job = None if it is None or it.job is None else tx.jobs.lock(it.job)
        now = world.clock.now()
        if job is None or not job.is_due(now - UNCLAIMED):
            return None
        return tx.jobs.take(job, worker_id=KEEPER, until=world.clock.steady() + LEASE, now=now)

    return world.route(owner=found.owner).store.transact(write)
