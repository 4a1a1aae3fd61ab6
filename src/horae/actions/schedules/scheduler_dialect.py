"""Document 004's start and schedule: they replace the timing that a job had before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.actions.schedules.schedules import add_schedule, check_schedule, lock_schedule, write_version
from horae.core.jobs.job import SYSTEM
from horae.core.schedules.schedule import Kind, Schedule
from horae.ports.store import Tx
from horae.ports.world import World

# Fields that keep an enabled schedule from firing.
FREE: dict[str, Any] = {"toggled": None, "paused_at": None, "paused_by": None, "pause_reason": None,
                        "paused_until": None}  # fmt: skip


def arrange(
    world: World,
    key: str,
    handler: str,
    kind: Kind,
    expression: str,
    *,
    zone: str | None = None,
    payload: dict[str, Any] | None = None,
    queue: str = "default",
    actor: str = SYSTEM,
    reason: str = "",
) -> Schedule:
    """Create a schedule, or change the existing one, and enable it."""
    now = world.clock.now()
    values: dict[str, Any] = {"kind": kind, "expression": expression, "enabled": True}
    values |= {name: value for name, value in (("zone", zone), ("payload", payload)) if value is not None}

    def write(tx: Tx) -> Schedule:
        if tx.schedules.get(key, SYSTEM) is None:
            return make(tx)
        before = lock_schedule(tx, key, SYSTEM)
        sources = {**before.sources, **dict.fromkeys(values, "api")}
        after = replace(before, **values, **FREE, after=(), sources=sources)
        return write_version(world, tx, before, after, "change", actor, reason)

    def make(tx: Tx) -> Schedule:
        sources = dict.fromkeys((*values, "handler", "queue"), "api")
        new = Schedule(key, handler, queue=queue, sources=sources, created_at=now, updated_at=now, tzdata=world.tzdata,
                       **values)  # fmt: skip
        check_schedule(world, new)
        return add_schedule(world, tx, new, "create", actor, reason, now)

    arranged = world.route(key=key).store.transact(write)
    world.route(key=key).store.wake(["*"])
    return arranged


def restart(world: World, key: str, *, actor: str = SYSTEM, reason: str = "") -> Schedule:
    """Let a schedule that was stopped or paused fire again as it did; one that is on stays as it is."""

    def write(tx: Tx) -> Schedule:
        before = lock_schedule(tx, key, SYSTEM)
        after = replace(before, **FREE, enabled=True, sources={**before.sources, "enabled": "api"})
        if before.enabled and all(getattr(before, name) is None for name in FREE):
            return before
        return write_version(world, tx, before, after, "enable", actor, reason)

    restarted = world.route(key=key).store.transact(write)
    world.route(key=key).store.wake(["*"])
    return restarted
