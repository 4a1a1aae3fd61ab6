"""Exclusive jobs: one running instance at a time, and a way past one that has fallen silent (document 004).

The check is made when another is started: while the running one shows progress, the new one is refused with its id; a
silent one is ended as lost, and the new one goes on from its checkpoint. One that was started and still waits for a
worker counts too; of two that start at the same moment, one is refused.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from horae.actions.jobs.endings import close
from horae.actions.jobs.jobs import enqueue
from horae.actions.jobs.requests import Enqueued, Request
from horae.core.cluster.shard_keys import in_shard
from horae.core.jobs.job import SYSTEM, Job, Outcome, is_silent
from horae.errors import AlreadyRunning, InvalidInput
from horae.ports.world import World


def start_exclusively(world: World, request: Request, *, stale_timeout: timedelta, connection: Any = None) -> Enqueued:
    """Enqueue unless another with the same concurrency key was started and is alive."""
    key = request.concurrency_key
    if key is None:
        raise InvalidInput("concurrency_key_missing")
    stored = key
    if world.cluster is not None and request.owner == SYSTEM:  # its name and its limit must be in one shard
        request = replace(request, shard_key=request.shard_key or key)
        stored = in_shard(request.shard_key or key, key)[0] or key
    shard_key = request.shard_key
    for job in world.route(owner=request.owner, shard_key=shard_key).store.read(lambda tx: tx.jobs.holders(stored)):
        if not is_silent(job, stale_timeout, world.clock.now()):
            raise AlreadyRunning(key, job.id)
        _close(world, job, stale_timeout)
        if job.checkpoint is not None and request.checkpoint is None:
            request = replace(request, checkpoint=job.checkpoint)
    alone = request if request.unique is not None else replace(request, unique=f"only:{key}")
    started = enqueue(world, alone, connection=connection)
    if started.deduplicated:
        raise AlreadyRunning(key, started.id)
    return started


def _close(world: World, job: Job, stale_timeout: timedelta) -> None:
    """End a silent job as lost; its token keeps one that has finished or reported progress meanwhile."""
    close(world, job, Outcome("lost", error=f"stale: no progress for more than {stale_timeout}", final=True))
