"""Checks before an agent's schedule is stored, in the same transaction."""

from __future__ import annotations

from horae.actions.schedules.entries import object_id
from horae.core.schedules.schedule import Schedule
from horae.errors import Conflict, QuotaExceeded
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.ports.world import World


def admit(world: World, tx: Tx, schedule: Schedule, most: int) -> None:
    """Refuse one schedule of a handler too many, and a late repetition of a request whose schedule was deleted.

    Takes the owner's lock, so that two requests do not both get the last place.
    """
    owner = schedule.owner
    tx.owners.lock(owner, world.clock.now())
    if tx.audit.find(object_id=object_id(schedule.key, owner), owner=owner, limit=1, before=None):
        raise Conflict("schedule_key_used", key=schedule.key)
    existing = tx.schedules.find(ScheduleFilter(owner=owner, handler=schedule.handler), limit=most, after=None)
    if len(existing) >= most:
        raise QuotaExceeded("schedules", most, "too_many_schedules")
