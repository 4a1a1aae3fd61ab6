"""Events of jobs that move: published where they were noted before the jobs go on elsewhere, so that none is overtaken.

Events stay in the database where they were noted. A mover waits twice for processes that publish them: for the backlog
before it closes any shard, and for what was noted since while the rows are packed, when nothing can add to it. Both
waits are bounded: while the bus is away a database can be drained all the same, and consumers know the order by the
runs and instants of the events.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from horae.actions.cluster import known_map, shards_of
from horae.core.cluster.moves import Cargo
from horae.ports.world import World

BACKLOG = timedelta(seconds=10)
CLOSED = timedelta(seconds=5)  # while the shards of a parcel are closed
LOOK_AGAIN = 0.05  # seconds; publishing takes a few hundredths


def wait_until_published(world: World, source: int, vshards: Collection[int], within: timedelta) -> bool:
    """Wait until what a database has noted by now about jobs of these virtual shards is published; return whether."""
    store, cargo = shards_of(world).store_of(source), Cargo(known_map(world), vshards)
    last, ends = store.read(lambda tx: tx.outbox.last_number()), world.clock.monotonic() + within.total_seconds()
    while store.read(lambda tx: tx.outbox.has_events_of(cargo, last)):
        if world.clock.monotonic() >= ends:
            return False
        world.clock.pause(LOOK_AGAIN)
    return True
