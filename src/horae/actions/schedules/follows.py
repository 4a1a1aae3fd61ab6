"""Which schedule follows which: stored beside them, so that an ending finds its followers without reading them."""

from __future__ import annotations

from horae.core.schedules.follows import cycle
from horae.core.schedules.schedule import Schedule
from horae.errors import Conflict, NotFound
from horae.ports.store import Tx


def note_follows(tx: Tx, schedule: Schedule) -> None:
    """Store which schedules this one follows; refuse a circle with its path."""
    parents = {key: tx.schedules.get(key, schedule.owner) for key in schedule.after}
    missing = sorted(key for key, parent in parents.items() if parent is None and key != schedule.key)
    if missing:
        raise NotFound("followed_unknown", key=schedule.key, missing=missing[0])
    edges: dict[str, tuple[str, ...]] = {schedule.key: schedule.after}
    waiting = [key for key in schedule.after if key != schedule.key]
    while waiting:
        key = waiting.pop()
        known = tx.schedules.get(key, schedule.owner)
        if key not in edges and known is not None:
            edges[key] = known.after
            waiting += known.after
    circle = cycle(edges)
    if circle:
        raise Conflict("schedules_in_circle", circle=list(circle))
    tx.schedules.follow(schedule.number, [parent.number for parent in parents.values() if parent is not None])
