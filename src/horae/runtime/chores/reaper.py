"""Hand on jobs whose lease has expired because their worker died or hangs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from horae.actions.jobs.endings import lose_expired
from horae.actions.jobs.jobs import get
from horae.core.jobs.job import Job
from horae.core.jobs.machinery import MACHINERY
from horae.ports.world import World
from horae.runtime.database import DatabaseThreads

log = logging.getLogger("horae.reaper")


class Reaper:
    """Close lost attempts. *tell_dead* is called with each job that died of it, and must not block."""

    def __init__(
        self, world: World, database: DatabaseThreads, tell_dead: Callable[[Job], None], batch: int = 100
    ) -> None:
        self._world = world
        self._database = database
        self._tell_dead = tell_dead
        self._batch = batch

    async def step(self) -> bool:
        """Close one batch of lost attempts; return whether another batch is probably waiting."""
        lost = await self._database.call(lambda: lose_expired(self._world, self._batch))
        for job, dead in lost:
            log.warning("the lease of %s ran out at %s", job.id, job.worker_id, extra={"job_id": job.id})
            if dead and job.queue != MACHINERY:  # Horae makes its own jobs again
                self._tell_dead(await self._database.call(partial(get, self._world, job.id)))
        return len(lost) == self._batch
