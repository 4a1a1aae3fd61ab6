"""Which schedule follows which: stored beside them, so that an ending finds its followers without reading them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from horae.core.cluster.messages import followings
from horae.core.schedules.follows import cycle
from horae.errors import Conflict, NotFound

if TYPE_CHECKING:
    from horae.core.schedules.schedule import Schedule
    from horae.ports.store import Tx
    from horae.ports.world import World


def note_follows(world: World, tx: Tx, schedule: Schedule, now: datetime, before: Collection[str] = ()) -> None:
    """Store which schedules this one follows; refuse a circle with its path.

    In a cluster those of other shards are told, and so are those that it followed *before* and does no more. One that
    is declared elsewhere may be stored later than its follower: it is told once it is there.
    """
    messages = followings(world.shard_map, schedule.owner, schedule.key, schedule.after, before)
    far = {each.key: each for each in messages if each.is_on}
    parents = {key: tx.schedules.get(key, schedule.owner) for key in schedule.after if key not in far}
    missing = sorted(key for key, parent in parents.items() if parent is None and key != schedule.key)
    if not schedule.declared:
        missing += sorted(key for key in far if _find(world, tx, schedule, key, is_far=True) is None)
    if missing:
        raise NotFound("followed_unknown", key=schedule.key, missing=missing[0])
    _refuse_circle(world, tx, schedule, far)
    near = [parent.number for parent in parents.values() if parent is not None]
    tx.schedules.follow(schedule.number, [*near, *(each.alias for each in far.values())])
    if messages:
        tx.messages.follow(schedule.number, schedule.version, messages, now)


def forget_follows(world: World, tx: Tx, schedule: Schedule, now: datetime) -> None:
    """Tell schedules of other shards that one which is deleted follows them no more."""
    messages = followings(world.shard_map, schedule.owner, schedule.key, (), schedule.after)
    if messages:
        tx.messages.follow(schedule.number, schedule.version + 1, messages, now)


def _refuse_circle(world: World, tx: Tx, schedule: Schedule, far: Collection[str]) -> None:
    edges: dict[str, tuple[str, ...]] = {schedule.key: schedule.after}
    waiting = [key for key in schedule.after if key != schedule.key]
    while waiting:
        key = waiting.pop()
        known = None if key in edges else _find(world, tx, schedule, key, is_far=bool(far))
        if known is not None:
            edges[key] = known.after
            waiting += known.after
    circle = cycle(edges)
    if circle:
        raise Conflict("schedules_in_circle", circle=list(circle))


def _find(world: World, tx: Tx, schedule: Schedule, key: str, *, is_far: bool) -> Schedule | None:
    """Return another schedule of the same owner, from here or, where some are, from another shard."""
    found = tx.schedules.get(key, schedule.owner)
    if found is not None or not is_far:
        return found
    return world.route(owner=schedule.owner, key=key).store.read(lambda there: there.schedules.get(key, schedule.owner))
