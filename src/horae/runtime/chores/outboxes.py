"""Messengers for databases of a cluster that never keep a shard: jobs of callers' transactions wait there.

No worker serves such a database, so every process that looks after a store also delivers what waits in those, as long
as there are few. Where there are many each has some, by the leases with which workers share out databases.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from horae.core.cluster.messages import HINT
from horae.ports.world import World
from horae.runtime.chores.messenger import Messenger
from horae.runtime.loop import Alarm, finish
from horae.runtime.worker.assignment import Assignment

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import ShardMap
    from horae.runtime.chores.keeper import MakeBeside

log = logging.getLogger("horae.messenger")
PATIENCE = 3.0  # seconds for messengers that end


def outboxes(everywhere: World) -> tuple[MakeBeside, ...]:
    """Return what makes the loop that delivers from databases without shards, one in each process of a cluster."""
    return () if everywhere.cluster is None else (lambda _, name: Outboxes(everywhere, name),)


class Outboxes:
    """The messengers of the databases without shards, one for each that this process is to deliver from."""

    def __init__(self, everywhere: World, name: str) -> None:
        assert everywhere.cluster is not None
        self._everywhere, self._own = everywhere, everywhere.cluster.number
        self._assignment = Assignment(everywhere, f"{name} messenger", [HINT], among=self._without_shards)
        self._running: dict[int, tuple[Messenger, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._alarm: Alarm | None = None
        self._is_stopping = False

    def _without_shards(self, shard_map: ShardMap) -> list[int]:
        """Return the databases that take no shards; the one that this process was told of has a keeper here."""
        return [each.number for each in shard_map.members if not each.takes_shards and each.number != self._own]

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""
        self._is_stopping = True
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Deliver until :meth:`stop`."""
        self._alarm = Alarm(self._everywhere.clock)
        try:
            while not self._is_stopping:
                try:
                    self._follow(await self._assignment.look())
                except Exception:
                    log.exception("looking for databases without shards failed; trying again")
                await self._alarm.until(lambda: self._is_stopping, self._assignment.pause)
            await self._assignment.leave()
        finally:
            for messenger, _ in self._running.values():
                messenger.stop()
            await finish(PATIENCE, *(task for _, task in self._running.values()), *self._ending)
            self._assignment.close()

    def _follow(self, found: dict[int, World | None]) -> None:
        """Begin and end messengers; one in a database that does not answer goes on, and tries again by itself."""
        for number, world in found.items():
            if world is not None and number not in self._running:
                messenger = Messenger(world, self._everywhere)
                task = asyncio.create_task(messenger.run(), name=f"horae-messenger-{number}")
                self._running[number] = (messenger, task)
            elif world is None and number in self._running:
                self._end(number)

    def _end(self, number: int) -> None:
        """Let a messenger finish what it does; only :meth:`run` waits for it, at the end of all."""
        messenger, task = self._running.pop(number)
        messenger.stop()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
