"""Toggles: switch schedules on and off, for good or until a worker starts again (C-16).

A toggle that is not for good wins over ``enabled``, which keeps what it was. It is forgotten when a worker of the
application that declares the schedule starts; where no application does, when any worker starts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from horae.actions.schedules.schedules import iterate, lock_schedule, write_version
from horae.core.jobs.job import SYSTEM
from horae.core.schedules.schedule import Schedule
from horae.ports.schedules import ScheduleFilter
from horae.ports.store import Tx
from horae.ports.world import World

DECLARED_BY = "declared"  # the source of this value names the application


def switch(
    world: World,
    key: str,
    enabled: bool,
    *,
    ephemeral: bool = False,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> Schedule:
    """Switch a schedule on or off; for good this also ends a temporary toggle. A repetition changes nothing."""

    def write(tx: Tx) -> Schedule:
        before = lock_schedule(tx, key, owner)
        if ephemeral:
            after = replace(before, toggled=enabled)
        else:
            after = replace(before, enabled=enabled, toggled=None, sources={**before.sources, "enabled": "api"})
        if (after.enabled, after.toggled) == (before.enabled, before.toggled):
            return before
        verb = "toggle" if ephemeral else "enable" if enabled else "disable"
        return write_version(world, tx, before, after, verb, actor, reason)

    switched = world.route(owner=owner, key=key).store.transact(write)
    world.route(owner=owner, key=key).store.wake(["*"])
    return switched


def forget_toggles(world: World, app: str) -> list[str]:
    """End the toggles of the application's schedules, and of those that no application declares; return the keys."""
    forgotten = []
    for schedule in iterate(world, ScheduleFilter(toggled=True)):
        if schedule.sources.get(DECLARED_BY, app) == app:
            world.route(owner=schedule.owner, key=schedule.key).store.transact(partial(_forget, world, schedule))
            forgotten.append(schedule.key)
    if forgotten:
        world.route().store.wake(["*"])
    return forgotten


def _forget(world: World, schedule: Schedule, tx: Tx) -> None:
    before = lock_schedule(tx, schedule.key, schedule.owner)
    if before.toggled is not None:
        write_version(world, tx, before, replace(before, toggled=None), "toggle", "system/start", "a worker started")
