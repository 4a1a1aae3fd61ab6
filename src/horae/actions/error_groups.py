"""The verbs of error groups: find them, mute them, and retry their dead jobs.

The roll-up makes them, from failed runs; see ``actions/roll_up.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs import acts
from horae.core.access.callers import Reach
from horae.core.audit.entries import Entry
from horae.core.dataclass import dataclass
from horae.core.error_groups import KEPT_DAYS, OTHER, ErrorGroup, dead_jobs_of
from horae.core.jobs.acts import Act
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import aware, instant, iso, micros
from horae.errors import InvalidInput, NotAllowed, NotFound
from horae.ports.store import Tx
from horae.ports.world import World

EVERYWHERE: Reach = {"owner": None, "queues": frozenset()}
DAYS = timedelta(days=30)  # shown of a group


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, whether it is muted now, and how often it was seen by day."""

    group: ErrorGroup
    is_muted: bool
    days: dict[datetime, int]


def find_groups(
    world: World,
    *,
    owner: str | None = None,
    handler: str | None = None,
    muted: bool | None = None,
    seen_since: datetime | None = None,
    limit: int = 50,
    before: tuple[int, str, str] | None = None,
) -> list[GroupView]:
    """Return groups, those seen last first; *muted* None means both kinds."""
    now = world.clock.now()
    since = None if seen_since is None else aware(seen_since, "seen_since")
    found = world.route(owner=owner).store.read(
        lambda tx: tx.error_groups.find(
            owner=owner, handler=handler, muted=muted, seen_since=since, now=now, limit=limit, before=before
        )
    )
    return [GroupView(each, each.is_muted(now), {}) for each in found]


def some_groups(world: World, keys: Iterable[tuple[str, str]]) -> list[GroupView]:
    """Return those of the groups, by owner and fingerprint, that there are."""
    now = world.clock.now()
    found = world.route().store.read(lambda tx: [tx.error_groups.get(owner, mark) for owner, mark in keys])
    return [GroupView(each, each.is_muted(now), {}) for each in found if each is not None]


def get_group(world: World, fingerprint: str, *, owner: str = SYSTEM) -> GroupView:
    """Return one group with its counts of the last 30 days, and days before as long as they are kept."""
    now = world.clock.now()

    def read(tx: Tx) -> GroupView:
        found = _known(tx.error_groups.get(owner, fingerprint), owner, fingerprint)
        days = tx.error_groups.days(owner, fingerprint, micros(now - DAYS))
        return GroupView(found, found.is_muted(now), {instant(at): count for at, count in days.items()})

    return world.route(owner=owner).store.read(read)


def mute(
    world: World,
    fingerprint: str,
    *,
    owner: str = SYSTEM,
    until: datetime | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> GroupView:
    """Mute a group until an instant, or until it is unmuted; it goes on counting, and stays muted when it grows."""
    now = world.clock.now()
    end = None if until is None else aware(until, "until")
    if end is not None and end <= now:
        raise InvalidInput("mute_passed", until=iso(end))
    if not reason.strip():
        raise InvalidInput("mute_reason_missing", fingerprint=fingerprint)
    change: dict[str, Any] = {"muted_at": now, "muted_until": end, "muted_by": actor, "mute_reason": reason}
    return _change(world, "mute", fingerprint, owner, actor, reason, lambda group: replace(group, **change))


def unmute(world: World, fingerprint: str, *, owner: str = SYSTEM, actor: str = SYSTEM, reason: str = "") -> GroupView:
    """Let a group be heard of again."""
    change: dict[str, Any] = dict.fromkeys(("muted_at", "muted_until", "muted_by", "mute_reason"))
    return _change(world, "unmute", fingerprint, owner, actor, reason, lambda group: replace(group, **change))


def _change(
    world: World,
    verb: str,
    fingerprint: str,
    owner: str,
    actor: str,
    reason: str,
    change: Callable[[ErrorGroup], ErrorGroup],
) -> GroupView:
    def write(tx: Tx) -> None:
        before = _known(tx.error_groups.get(owner, fingerprint, lock=True), owner, fingerprint)
        after = change(before)
        tx.error_groups.put(after)
        now = world.clock.now()
        old, new = _mute_facts(before), _mute_facts(after)
        tx.audit.append(
            Entry(now, actor, verb, "error_group", fingerprint, owner, reason or None, before=old, after=new)
        )

    world.route(owner=owner).store.transact(write)
    return get_group(world, fingerprint, owner=owner)


def _mute_facts(group: ErrorGroup) -> dict[str, Any]:
    until = None if group.muted_until is None else iso(group.muted_until)
    return {"muted": group.muted_at is not None, "until": until, "title": group.title, "handler": group.handler}


def retry(
    world: World,
    group: ErrorGroup,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    reach: Reach = EVERYWHERE,
) -> Act:
    """Begin a bulk act that revives the dead jobs of a group; *reach* limits it as every act of its caller is."""
    return acts.start(world, "revive", retried_jobs(group), actor=actor, reason=reason, **reach)


def retried_jobs(group: ErrorGroup) -> str:
    """Return the filter of the dead jobs of a group; the one that takes whatever has no group of its own has none."""
    if group.fingerprint == OTHER:
        raise NotAllowed("error_group_mixed", owner=group.owner)
    return dead_jobs_of(group.owner, group.handler, group.fingerprint)


def _known(group: ErrorGroup | None, owner: str, fingerprint: str) -> ErrorGroup:
    if group is None:
        raise NotFound("error_group_unknown", fingerprint=fingerprint, owner=owner, days=KEPT_DAYS)
    return group
