"""The verbs of a process that does chores: take one for a while, hold it longer, give it back until it is due again."""

from __future__ import annotations

from datetime import timedelta

from horae.core.dataclass import dataclass
from horae.ports.world import World

TOKEN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class HeldChore:
    """A chore that this process holds; what it writes about it later is fenced by the token."""

    name: str
    token: str


def take(world: World, name: str, *, holder: str, every: timedelta, lease: timedelta) -> HeldChore | timedelta:
    """Take a chore if it is due and no process is at it; else return in how long it is worth asking again."""
    now, held = world.clock.steady(), HeldChore(name, world.dice.name(TOKEN_LENGTH))
    turn = world.route().store.take_chore(
        name, token=held.token, holder=holder[:255], every=every, lease=lease, now=now
    )
    return held if turn.is_taken else max(timedelta(0), turn.at - now)


def extend(world: World, held: HeldChore, *, lease: timedelta) -> bool:
    """Hold a chore for *lease* from now on; false when its time had run out, so that it may be another's by now."""
    now = world.clock.steady()
    return world.route().store.extend_chore(held.name, held.token, until=now + lease, now=now)


def end(world: World, held: HeldChore, *, every: timedelta, is_done: bool) -> bool:
    """Give a chore back until it is due again; false when another process has taken it over."""
    now = world.clock.steady()
    return world.route().store.end_chore(held.name, held.token, due_at=now + every, done_at=now if is_done else None)
