"""The relay: read the outbox, publish, remove what was acknowledged. One process at a time does it, by a stored lease.

A process that dies between publishing and removing leaves entries that are published again under the same id; NATS
drops those within its duplicate window, and consumers know them by their id. Entries are removed one by one, never as a
range: a lower number may be committed after a higher one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from horae.actions import bus
from horae.core.bus import PREFIX, PUBLISH, BusMessage, check_prefix, waves
from horae.ports.workers import Upcoming
from horae.ports.world import World
from horae.runtime.chores.janitor import Chore

log = logging.getLogger("horae.bus")
AT_ONCE = 500  # entries between two transactions
LONGEST = 10.0  # seconds of one turn; then the lease is looked at again
EVERY = timedelta(milliseconds=200)


class Publisher(Protocol):
    """A message bus."""

    async def publish(self, messages: Sequence[BusMessage]) -> list[int]:
        """Publish messages that may overtake one another; return the numbers of those that were acknowledged."""

    async def close(self) -> None: ...


class Relayed(Protocol):
    """An application, as far as a relay needs it."""

    @property
    def chores(self) -> list[Chore]: ...


def publish(
    app: Relayed,
    servers: str | Sequence[str],
    *,
    stream: str = "HORAE",
    prefix: str = PREFIX,
    replicas: int = 1,
    **options: Any,
) -> Relay:
    """Publish the events of an application's store to NATS JetStream, from every process of it in turns.

    *options* go to ``nats.connect``. The stream is made if there is none, kept by *replicas* servers. Call it
    before a worker or the service of the application starts, and ``horae bus on`` once for the database.
    """
    from horae.bus.nats import NatsPublisher

    named = [servers] if isinstance(servers, str) else list(servers)
    publisher = NatsPublisher(named, stream=stream, prefix=check_prefix(prefix), replicas=replicas, options=options)
    relay = Relay(publisher, prefix=prefix)
    app.chores.append(Chore(PUBLISH, EVERY, relay.turn, _has_waiting, lock=PUBLISH, hinted=True))
    return relay


def _has_waiting(look: Upcoming) -> bool:
    return "outbox" in look.open


class Relay:
    """Takes entries from the outbox to the bus, in order for each job."""

    def __init__(self, publisher: Publisher, *, prefix: str = PREFIX) -> None:
        self._publisher = publisher
        self._prefix = prefix

    async def turn(self, world: World) -> int:
        """Publish until nothing waits, the bus does not acknowledge, or the turn is over; return how many went out."""
        done, ends = 0, world.clock.monotonic() + LONGEST
        while world.clock.monotonic() < ends:
            sent = await self.step(world)
            done += sent
            if sent < AT_ONCE:
                break
        return done

    async def step(self, world: World) -> int:
        """Publish one batch; return how many were acknowledged."""
        waiting = await asyncio.to_thread(bus.next_messages, world, limit=AT_ONCE, prefix=self._prefix)
        sent = 0
        for wave in waves(waiting):
            acknowledged = await self._publisher.publish(wave)
            await asyncio.to_thread(bus.forget, world, acknowledged)
            sent += len(acknowledged)
            if len(acknowledged) < len(wave):  # what follows of the same jobs must not overtake it
                log.warning("the bus acknowledged %s of %s events; the rest waits", len(acknowledged), len(wave))
                break
        return sent

    async def close(self) -> None:
        """End the connection to the bus."""
        await self._publisher.close()
