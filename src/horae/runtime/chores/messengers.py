"""Who delivers the messages of a cluster: beside each keeper a messenger for each database that it keeps."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from horae.errors import HoraeError
from horae.runtime.chores.messenger import Messenger
from horae.runtime.loop import Alarm, finish

if TYPE_CHECKING:
    from horae.ports.world import World
    from horae.runtime.chores.keeper import Beside, MakeBeside

log = logging.getLogger("horae.messenger")
PATIENCE = 5.0  # seconds
LOOK_FOR_DATABASES = timedelta(seconds=15)  # one that was away or was added is served after this


def messengers(everywhere: World) -> tuple[MakeBeside, ...]:
    """Return what makes the messengers of a keeper; a single database has none."""
    if everywhere.cluster is None:
        return ()

    def make(world: World, _: str) -> Beside:
        if world.cluster is None:  # a worker's, which keeps one database
            return Messenger(world, everywhere)
        return Messengers(everywhere)

    return (make,)


class Messengers:
    """Messengers of all databases, in a process that keeps all of them and may start while some are away."""

    def __init__(self, everywhere: World) -> None:
        self._everywhere = everywhere
        self._served: dict[int, tuple[Messenger, asyncio.Task[None]]] = {}
        self._alarm: Alarm | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""
        self._is_stopping = True
        for messenger, _ in self._served.values():
            messenger.stop()
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Deliver until :meth:`stop`."""
        self._alarm = Alarm(self._everywhere.clock)
        try:
            while not self._is_stopping:
                for number, world in await asyncio.to_thread(self._find):
                    messenger = Messenger(world, self._everywhere)
                    task = asyncio.create_task(messenger.run(), name=f"horae-messenger-{number}")
                    self._served[number] = (messenger, task)
                await self._alarm.until(lambda: self._is_stopping, LOOK_FOR_DATABASES)
        finally:
            self.stop()
            await finish(PATIENCE, *[task for _, task in self._served.values()])

    def _find(self) -> list[tuple[int, World]]:
        """Return the databases that answer and are not served yet."""
        cluster, found = self._everywhere.cluster, []
        assert cluster is not None
        for member in cluster.shard_map.members:
            if member.number not in self._served:
                try:
                    found.append((member.number, cluster.whole(self._everywhere, member.number)))
                except HoraeError as problem:
                    log.debug("messages of database %s wait until it answers: %s", member.name, problem)
        return found
