"""Who delivers the messages of a cluster: beside each keeper a messenger for each database that it keeps."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from horae.runtime.loop import finish

if TYPE_CHECKING:
    from horae.ports.world import World
    from horae.runtime.chores.keeper import Beside, MakeBeside

PATIENCE = 5.0  # seconds


def messengers(everywhere: World) -> tuple[MakeBeside, ...]:
    """Return what makes the messengers of a keeper; a single database has none."""
    if everywhere.cluster is None:
        return ()

    def make(world: World, _: str) -> Beside:
        from horae.runtime.chores.messenger import Messenger

        if world.cluster is None:  # a worker's, which keeps one database
            return Messenger(world, everywhere)
        return Together([Messenger(each, everywhere) for each in world.databases()])

    return (make,)


class Together:
    """Messengers of several databases, in a process that keeps all of them."""

    def __init__(self, parts: list[Beside]) -> None:
        self._parts = parts

    def stop(self) -> None:
        for each in self._parts:
            each.stop()

    async def run(self) -> None:
        tasks = [asyncio.create_task(each.run(), name="horae-messenger") for each in self._parts]
        try:
            await asyncio.wait(tasks)
        finally:
            self.stop()
            await finish(PATIENCE, *tasks)
