"""The janitor: now and then forgets what is old, and lets in whoever was left waiting although there is room."""

from __future__ import annotations

import logging
from datetime import timedelta

from horae.actions.retention import BATCH, Retention, clean
from horae.errors import HoraeError
from horae.ports import World
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm

log = logging.getLogger("horae.janitor")
EVERY = timedelta(hours=1)


class Janitor:
    """Housekeeping of one process; any number of them get along."""

    def __init__(self, world: World, database: DatabaseThreads, retention: Retention) -> None:
        self._world = world
        self._database = database
        self._retention = retention
        self._alarm: Alarm | None = None
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Clean once an hour, at a moment that differs from process to process."""
        self._alarm = Alarm(self._world.clock)
        await self._alarm.sleep(None, EVERY * self._world.dice.roll())
        while not self._stopping:
            try:
                while not self._stopping and await self.step():
                    continue
            except HoraeError as problem:
                log.warning("housekeeping is put off: %s", problem)
            await self._alarm.sleep(None, EVERY)

    async def step(self) -> bool:
        """One small batch; true when there is probably more."""
        freed = await self._database.call(self._world.store.let_in_forgotten)
        if freed:
            log.warning("jobs were held although there was room: queues %s", ", ".join(sorted(freed)))
        gone = await self._database.call(lambda: clean(self._world, self._retention))
        if any(gone.values()):
            told = ", ".join(f"{count} of {table}" for table, count in gone.items() if count)
            log.debug("forgotten: %s", told)
        return any(count >= BATCH for count in gone.values())
