"""Document 004's start and schedule: whatever the job had before, from now on it runs like this."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from horae.actions.schedules import added, checked, locked, written
from horae.core.fires import Kind, Schedule
from horae.core.jobs import SYSTEM
from horae.ports import Tx, World


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
    """Make the schedule, or change the one that is there; either way it is on when this returns."""
    now = world.clock.now()
    told: dict[str, Any] = {"kind": kind, "expression": expression, "enabled": True}
    told |= {name: value for name, value in (("zone", zone), ("payload", payload)) if value is not None}

    def write(tx: Tx) -> Schedule:
        if tx.schedules.get(key, SYSTEM) is None:
            return make(tx)
        before = locked(tx, key, SYSTEM)
        sources = {**before.sources, **dict.fromkeys(told, "api")}
        free: dict[str, Any] = {"after": (), "toggled": None, "paused_at": None, "paused_by": None,
                                "pause_reason": None}  # fmt: skip
        return written(world, tx, before, replace(before, **told, **free, sources=sources), "change", actor, reason)

    def make(tx: Tx) -> Schedule:
        sources = dict.fromkeys((*told, "handler", "queue"), "api")
        new = Schedule(key, handler, queue=queue, sources=sources, created_at=now, updated_at=now, tzdata=world.tzdata,
                       **told)  # fmt: skip
        checked(world, new)
        return added(world, tx, new, "create", actor, reason, now)

    arranged = world.store.transact(write)
    world.store.wake(["*"])
    return arranged
