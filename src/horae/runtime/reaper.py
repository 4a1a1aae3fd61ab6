"""Hands on jobs whose worker has gone silent."""

from __future__ import annotations

import logging
from functools import partial

from horae.actions.jobs import get, lose_expired
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.listeners import Listeners

log = logging.getLogger("horae.reaper")


class Reaper:
    def __init__(self, world: World, database: DatabaseThreads, listeners: Listeners, batch: int = 100) -> None:
        self._world = world
        self._database = database
        self._listeners = listeners
        self._batch = batch

    async def step(self) -> bool:
        """Close one batch of lost attempts; true when another is probably waiting."""
        lost = await self._database.call(lambda: lose_expired(self._world, self._batch))
        for job, dead in lost:
            log.warning("the lease of %s ran out at %s", job.id, job.worker_id, extra={"job_id": job.id})
            if dead:
                await self._listeners.tell_dead(await self._database.call(partial(get, self._world, job.id)))
        return len(lost) == self._batch
