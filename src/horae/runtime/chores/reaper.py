"""Hands on jobs whose worker has gone silent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from horae.actions.jobs.endings import lose_expired
from horae.actions.jobs.jobs import get
from horae.core.jobs.job import Job
from horae.core.jobs.machinery import MACHINERY
from horae.ports import World
from horae.runtime.database import DatabaseThreads

log = logging.getLogger("horae.reaper")


class Reaper:
    """*tell_dead* gets every job that died of it; it must return at once."""

    def __init__(
        self, world: World, database: DatabaseThreads, tell_dead: Callable[[Job], None], batch: int = 100
    ) -> None:
        self._world = world
        self._database = database
        self._tell_dead = tell_dead
        self._batch = batch

    async def step(self) -> bool:
        """Close one batch of lost attempts; true when another is probably waiting."""
        lost = await self._database.call(lambda: lose_expired(self._world, self._batch))
        for job, dead in lost:
            log.warning("the lease of %s ran out at %s", job.id, job.worker_id, extra={"job_id": job.id})
            if dead and job.queue != MACHINERY:  # that one is made again
                self._tell_dead(await self._database.call(partial(get, self._world, job.id)))
        return len(lost) == self._batch
