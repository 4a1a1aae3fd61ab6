"""Dispatch of a cluster: a relay for each database, by a lease in that database, and one for asks that name none.

A process may be several relays; each has threads and a connection of its own, so that a database that is away or hangs
holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from horae.bus.dispatch import COURTESY, LEASE, Dispatcher
from horae.errors import HoraeError
from horae.ports.world import World
from horae.runtime.chores.keeper import LOOK_FOR_SHARDS, Beside
from horae.runtime.database import DatabaseThreads
from horae.runtime.loop import Alarm
from horae.runtime.sources.bus_line import BusAddress

log = logging.getLogger("horae.bus")


class ClusterDispatcher(Beside):
    """A process that takes its turn as the relay of each database, and of those who name none."""

    def __init__(
        self, world: World, name: str, address: BusAddress, *, replicas: int = 1, lease: timedelta = LEASE
    ) -> None:
        self._world, self._name, self._bus = world, name, address
        self._replicas, self._lease = replicas, lease
        self._relays: dict[int, Dispatcher] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._any = self._make(None)
        self._is_stopping = False
        self._alarm: Alarm | None = None

    def stop(self) -> None:
        """Ask it to end; from the loop's thread."""
        self._is_stopping = True
        for each in (self._any, *self._relays.values()):
            each.stop()
        if self._alarm is not None:
            self._alarm.ring()

    async def run(self) -> None:
        """Follow the map until :meth:`stop`: each database that keeps something has a relay."""
        self._alarm, looking = Alarm(self._world.clock), DatabaseThreads(1, "horae-dispatch")
        self._start(self._any)
        refreshed: asyncio.Future[None] | None = None
        try:
            while not self._is_stopping:
                await self._follow_map(self._alarm)
                if refreshed is None or refreshed.done():  # else the first database hangs: the known map does
                    refreshed = looking.submit(self._refresh)
                await self._alarm.until(lambda: self._is_stopping, LOOK_FOR_SHARDS)
            if self._running:
                await asyncio.wait(self._running)
        finally:
            for task in self._running:
                task.cancel()
            looking.close()

    async def _follow_map(self, alarm: Alarm) -> None:
        assert self._world.cluster is not None
        kept = {number for number, count in self._world.cluster.shard_map.counts.items() if count}
        for number in set(self._relays) - kept:
            self._relays.pop(number).stop()
        missing = sorted(kept - set(self._relays), key=lambda _: self._world.dice.roll())
        for number in missing:
            if self._is_stopping:
                return
            self._relays[number] = made = self._make(number)
            self._start(made)
            await alarm.until(lambda: self._is_stopping, COURTESY)

    def _refresh(self) -> None:
        assert self._world.cluster is not None
        try:
            self._world.cluster.refresh()
        except HoraeError as problem:  # the known map does while the first database is away
            log.debug("the map of the cluster is not read again now: %s", problem)

    def _start(self, relay: Dispatcher) -> None:
        task = asyncio.create_task(relay.run(), name="horae-relay")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _make(self, number: int | None) -> Dispatcher:
        return Dispatcher(
            self._world, self._name, self._bus,
            replicas=self._replicas, lease=self._lease, number=number, may_take=self._may_take,
        )  # fmt: skip

    def _may_take(self) -> bool:
        """Return whether to ask for one more lease now: a process that has just taken one lets others go first.

        So processes that start together, or outlive another, share the databases.
        """
        taken = max((each.taken_at for each in self._relays.values() if each.is_held), default=float("-inf"))
        return self._world.clock.monotonic() >= taken + COURTESY.total_seconds()
