"""The verbs of tenants: settings that the operator gives one."""

from __future__ import annotations

from horae.core.access.owners import OwnerSettings
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.ports.store import Tx
from horae.ports.world import World


def set_owner(
    world: World, owner: str, settings: OwnerSettings, *, actor: str = SYSTEM, reason: str = ""
) -> OwnerSettings:
    """Change the settings of a tenant; they apply from its next call and its next task on."""
    label(owner, "owner")
    checked = OwnerSettings.read(settings.merge_into({}))
    now = world.clock.now()

    def write(tx: Tx) -> None:
        before = tx.owners.lock(owner, now)
        after = checked.merge_into(before)
        if after != before:
            tx.owners.put(owner, after, now)
            why = reason or None
            tx.audit.append(Entry(now, actor, "set", "owner", owner, owner, why, before=dict(before), after=after))

    world.route(owner=owner).store.transact(write)
    return checked


def get_owner(world: World, owner: str) -> OwnerSettings:
    """Return the settings of a tenant; the defaults where none were set."""
    return OwnerSettings.read(world.route(owner=owner).store.read(lambda tx: tx.owners.settings(label(owner, "owner"))))


def find_owners(world: World, *, limit: int = 100, after: str | None = None) -> list[tuple[str, OwnerSettings]]:
    """Return tenants that have settings, secrets or tasks, by name."""
    page_size(limit)

    if after is not None:
        label(after, "owner")

    def read(tx: Tx) -> list[tuple[str, OwnerSettings]]:
        names = tx.owners.all(limit=limit, after=after)
        return [(name, OwnerSettings.read(tx.owners.settings(name))) for name in names]

    return world.route().store.read(read)
