"""The verbs of a message bus: switch events on and off, read what waits to be published, remove what was."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime

from horae.actions.shards import ask_each
from horae.core.audit.entries import Entry
from horae.core.bus import PREFIX, PUBLISH, BusMessage, message
from horae.core.dataclass import dataclass
from horae.core.dispatch import RELAY, RELAY_OF_ONE
from horae.core.jobs.job import SYSTEM
from horae.ports.bus import BusSwitch
from horae.ports.store import Tx
from horae.ports.world import World

MOST_COUNTED = 10_001
NAME_LENGTH = 12


@dataclass(frozen=True, slots=True)
class BusStatus:
    """Whether events are noted, and what waits to be published; *waiting* counts up to 10,001."""

    enabled: bool
    source: str | None
    switched_at: datetime | None
    actor: str | None
    missing: tuple[str, ...]  # triggers that should note events and are not there
    waiting: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class BusMember:
    """How the bus stands in one database: what waits there, and which processes take it away."""

    name: str | None  # of the database in its cluster
    status: BusStatus
    publisher: str | None  # the process that published its events last, or is at it
    relay: str | None  # the process that hands out its jobs now

    def is_behind(self, since: datetime) -> bool:
        """Return whether an event has waited to be published since before that instant."""
        return self.status.oldest_at is not None and self.status.oldest_at < since


def look_everywhere(world: World) -> tuple[list[BusMember], tuple[str, ...]]:
    """Return how the bus stands in each database, and the names of those that were away."""
    if world.cluster is None:
        return [_look(world, None)], ()
    known = world.cluster.shard_map.sharded
    names = {each.number: each.name for each in known}
    found, away = ask_each(world, lambda shard, number: _look(shard, names[number]), asked=known)
    return list(found.values()), away


def _look(world: World, name: str | None) -> BusMember:
    now, relays = world.clock.steady(), RELAY if name is None else RELAY_OF_ONE
    chores = {each.name: each for each in world.route().store.read(lambda tx: tx.health.chores())}
    publisher, relay = chores.get(PUBLISH), chores.get(relays)
    return BusMember(
        name,
        status(world),
        None if publisher is None else publisher.holder,
        None if relay is None or relay.leased_until <= now else relay.holder,
    )


def ask_everywhere(world: World, act: Callable[[World], BusStatus]) -> tuple[BusStatus, tuple[str, ...]]:
    """Switch or look at the bus in every database of a cluster; return how it stands in all, and who was away.

    Each database notes, names and publishes its own events. One that does not note them while others do is named as
    missing.
    """
    if world.cluster is None:
        return act(world), ()
    known = world.cluster.shard_map.sharded  # events may wait in one that was drained
    found, away = ask_each(world, lambda shard, _: act(shard), asked=known)
    names = {each.number: each.name for each in known}
    is_on = any(each.enabled for each in found.values())
    silent = [f"all of {names[number]}" for number, each in found.items() if is_on and not each.enabled]
    oldest = [each.oldest_at for each in found.values() if each.oldest_at is not None]
    first = next(each for each in found.values() if each.enabled or not is_on)
    return replace(
        first,
        missing=(*silent, *(name for each in found.values() for name in each.missing)),
        waiting=min(sum(each.waiting for each in found.values()), MOST_COUNTED),
        oldest_at=min(oldest, default=None),
    ), away


def switch_on(world: World, *, actor: str = SYSTEM, reason: str = "") -> BusStatus:
    """Let the database note an event for each enqueue, each end of an attempt and each fire from now on.

    Repeating it makes what is missing. Where DDL commits by itself the switch comes first, so that a process that dies
    in between leaves something that says what is missing.
    """
    now = world.clock.now()

    def write(tx: Tx) -> None:
        before = tx.outbox.switch()
        if before is None or not before.enabled:
            source = world.dice.name(NAME_LENGTH) if before is None else before.source
            tx.outbox.set_switch(BusSwitch(source, True, now, actor))
            tx.audit.append(_switch_entry("switch_on_bus", now, actor, reason))
        tx.outbox.make_triggers()

    world.route().store.transact(write)
    return status(world)


def switch_off(world: World, *, actor: str = SYSTEM, reason: str = "") -> BusStatus:
    """Note no further events. What was noted is still published, with the same ids."""
    now = world.clock.now()

    def write(tx: Tx) -> None:
        tx.outbox.drop_triggers()
        before = tx.outbox.switch()
        if before is not None and before.enabled:
            tx.outbox.set_switch(BusSwitch(before.source, False, now, actor))
            tx.audit.append(_switch_entry("switch_off_bus", now, actor, reason))

    world.route().store.transact(write)
    return status(world)


def identify(world: World) -> str:
    """Return the name of this database on a bus; it is drawn once."""
    now = world.clock.now()

    def find(tx: Tx) -> str:
        if (known := tx.outbox.switch()) is None:
            tx.outbox.set_switch(known := BusSwitch(world.dice.name(NAME_LENGTH), False, now, SYSTEM))
        return known.source

    known = world.route().store.read(lambda tx: tx.outbox.switch())
    return world.route().store.transact(find) if known is None else known.source


def mark(world: World) -> str:
    """Return the name under which dispatch marks its streams: that of the database, or of the whole cluster.

    The latter is known to each of its databases, so that one that is away keeps no relay of another from serving.
    """
    return identify(world) if world.shard_map is None else world.shard_map.mark


def status(world: World) -> BusStatus:
    """Return how the bus stands, as of one moment."""

    def look(tx: Tx) -> BusStatus:
        switch, (waiting, oldest) = tx.outbox.switch(), tx.outbox.waiting(MOST_COUNTED)
        if switch is None:
            return BusStatus(False, None, None, None, (), waiting, oldest)
        missing = tuple(tx.outbox.missing_triggers()) if switch.enabled else ()
        return BusStatus(switch.enabled, switch.source, switch.switched_at, switch.actor, missing, waiting, oldest)

    return world.route().store.read(look)


def next_messages(world: World, *, limit: int, prefix: str = PREFIX) -> list[BusMessage]:
    """Return what waits to be published, by number; nothing is removed."""

    def look(tx: Tx) -> list[BusMessage]:
        switch = tx.outbox.switch()
        if switch is None:
            return []
        return [message(each, source=switch.source, prefix=prefix) for each in tx.outbox.read(limit)]

    return world.route().store.read(look)


def forget(world: World, numbers: Collection[int]) -> int:
    """Remove entries that the bus has acknowledged, exactly these; return how many were still there."""
    return world.route().store.transact(lambda tx: tx.outbox.remove(numbers)) if numbers else 0


def _switch_entry(verb: str, now: datetime, actor: str, reason: str) -> Entry:
    return Entry(at=now, actor=actor, verb=verb, object_type="bus", object_id="events", reason=reason or None)
