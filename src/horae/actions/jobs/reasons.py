"""Explain why a job does not run."""

from __future__ import annotations

from datetime import timedelta

from horae.actions.budgets.budgets import waits_of
from horae.actions.jobs.expectations import why_expected
from horae.actions.jobs.quiet_owners import quiet_until
from horae.actions.jobs.quiet_queues import as_of
from horae.core.cluster.sent_jobs import ON_THE_WAY
from horae.core.jobs.batch import HELD_BY_BATCH
from horae.core.jobs.job import SYSTEM, Filter, Job
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.reasons import Around, Reason
from horae.core.jobs.reasons import why as decide
from horae.ports.queues import Queue
from horae.ports.store import Tx
from horae.ports.world import World

SILENT = timedelta(minutes=3)  # three missed heartbeats: a worker that was killed stops counting
MANY = 1000


def why(world: World, job: Job, *, owner: str | None = None) -> tuple[Reason, ...]:
    """Return every reason that keeps the job from running, or what became of it; never empty.

    With *owner* the reasons show nothing of other tenants' jobs.
    """
    if job.held == ON_THE_WAY:  # its shard, which may be away, knows nothing of it
        return (Reason("on_the_way", "on_the_way"),)
    now = world.clock.now()

    def read(tx: Tx) -> Around:
        if job.state != "queued":
            return Around(expected=why_expected(tx, job, now))
        queue = as_of(next((each for each in tx.queues.all() if each.name == job.queue), Queue(job.queue)), now)
        nodes = [node for node in tx.nodes.all() if node.seen_at > now - SILENT]
        rivals = _running(tx) if job.held or queue.max_running is not None else []
        past = tx.jobs.runs(job.number) if job.token else []
        limits = tx.queues.limits()
        taken = tx.limits.running() if limits else {}
        return Around(
            paused_at=queue.paused_at,
            paused_by=queue.paused_by,
            paused_until=queue.paused_until,
            pause_reason=queue.pause_reason,
            max_running=queue.max_running,
            running=sum(other.queue == job.queue for other in rivals),
            workers=sum(node.serves(job.queue) or job.queue == MACHINERY for node in nodes),
            limits={name: (most, taken.get(name, 0)) for name, most in limits.items()},
            holders=tuple(
                other.id
                for other in rivals
                if other.concurrency_key == job.concurrency_key and owner in (None, other.owner)
            ),
            parents=tuple(tx.jobs.parents(job.number)) if job.held == "needs" else (),
            batch=tx.batches.of_job(job.number) if job.held == HELD_BY_BATCH else None,
            last_run=past[-1] if past else None,
            budgets=waits_of(tx, job, now) if job.budget is not None else (),
            in_turns=queue.fair is not None,
            owner_quiet_until=None if job.owner == SYSTEM else quiet_until(tx.owner_hours.get(job.owner), now),
            shows_others=owner is None,
            expected=why_expected(tx, job, now),
        )

    return decide(job, world.route(owner=owner, id=job.id).store.read(read), now=now)


def _running(tx: Tx) -> list[Job]:
    return tx.jobs.find(Filter(states=("running",)), limit=MANY, before=None)
