"""Quiet hours of owners: none of an owner's jobs starts in them, whatever its queue and its caller.

A claim that meets a job of such an owner puts it off until the hours end, so that the jobs of others behind it are not
kept waiting. As with queues a job of Horae's own turns the hours on and off, and a claim that comes before it does so
starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.actions.jobs.quiet_queues import plan_turn, turn_of
from horae.core.audit.entries import Entry
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.payloads import label
from horae.core.jobs.reasons import Reason
from horae.core.schedules.windows import next_window
from horae.core.time.instants import MICROSECOND, from_iso, iso
from horae.core.time.zones import zone_named
from horae.errors import InvalidInput, NotFound
from horae.ports.queues import OwnerHours
from horae.ports.store import Tx
from horae.ports.world import World


def quiet_owner(
    world: World, owner: str, quiet_hours: str, zone: str = "UTC", *, actor: str = SYSTEM, reason: str = ""
) -> OwnerHours:
    """Start no job of an owner in these hours of a zone, such as 22:00-07:00."""
    _check(owner)
    now = world.clock.now()
    zone_named(zone)
    opens, closes = next_window(quiet_hours, zone, now)

    def write(tx: Tx) -> OwnerHours:
        before = tx.owner_hours.get(owner, lock=True)
        known = None if before is None else before.quiet_since
        since = now if known is None else max(now, known + MICROSECOND)
        after = _turned(OwnerHours(owner, quiet_hours, zone, since), opens, closes, now)
        tx.owner_hours.put(after)
        plan_turn(tx, {"owner": owner, "since": iso(since)}, after.quiet_at or closes, now)
        tx.audit.append(_entry(before, after, owner, actor, reason, now))
        return after

    changed = world.route(owner=owner).store.transact(write)
    world.route(owner=owner).store.wake([MACHINERY])
    return changed


def lift_owner(world: World, owner: str, *, actor: str = SYSTEM, reason: str = "") -> None:
    """Lift the quiet hours of an owner; what was put off already starts when they would have ended."""
    now = world.clock.now()

    def write(tx: Tx) -> None:
        before = tx.owner_hours.get(owner, lock=True)
        if before is None:
            raise NotFound("owner_without_hours", owner=owner)
        tx.owner_hours.remove(owner)
        tx.audit.append(_entry(before, None, owner, actor, reason, now))

    world.route(owner=owner).store.transact(write)


def list_owners(world: World) -> list[OwnerHours]:
    """Return the owners that have quiet hours."""
    return world.route().store.read(lambda tx: tx.owner_hours.all())


def keep_owner_quiet(world: World, payload: Mapping[str, Any]) -> datetime | None:
    """Turn the quiet hours of an owner on or off; return when to come back, None where these hours hold no more."""
    owner, since = str(payload["owner"]), from_iso(str(payload["since"]))
    now = world.clock.now()

    def write(tx: Tx) -> datetime | None:
        before = tx.owner_hours.get(owner, lock=True)
        if before is None or before.quiet_since != since:
            return None
        after = _turned(before, *next_window(before.quiet_hours, before.quiet_zone, now), now)
        tx.owner_hours.put(after)
        return after.quiet_at

    again = world.route(owner=owner).store.transact(write)
    world.route(owner=owner).store.wake(["*"])
    return again


def quiet_until(hours: OwnerHours | None, now: datetime) -> datetime | None:
    """Return when the quiet hours of this moment end; None outside them."""
    if hours is None:
        return None
    opens, closes = next_window(hours.quiet_hours, hours.quiet_zone, now)
    return closes if opens <= now else None


def hours_of(world: World, owner: str) -> OwnerHours | None:
    """Return the quiet hours of an owner; None where it has none."""
    return None if owner == SYSTEM else world.route(owner=owner).store.read(lambda tx: tx.owner_hours.get(owner))


def why_later(hours: OwnerHours | None, fires_at: datetime | None) -> tuple[Reason, ...]:
    """Say that the job of a fire starts later, where it falls into quiet hours of its owner."""
    until = None if fires_at is None else quiet_until(hours, fires_at)
    if until is None or hours is None:
        return ()
    return (Reason("owner_quiet", "starts_after_quiet", {"owner": hours.owner, "until": iso(until)}),)


def _turned(hours: OwnerHours, opens: datetime, closes: datetime, now: datetime) -> OwnerHours:
    return replace(hours, quiet_at=turn_of(opens, closes, now), quiet_until=closes if opens <= now else None)


def _check(owner: str) -> None:
    if label(owner, "owner") == SYSTEM:
        raise InvalidInput("owner_is_house")


def _entry(
    before: OwnerHours | None, after: OwnerHours | None, owner: str, actor: str, reason: str, now: datetime
) -> Entry:
    old, new = (
        {"quiet_hours": each and each.quiet_hours, "quiet_zone": each and each.quiet_zone} for each in (before, after)
    )
    return Entry(now, actor, "quiet", "owner", owner, owner=owner, reason=reason or None, before=old, after=new)
