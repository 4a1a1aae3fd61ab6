"""The verbs of error groups: find them, mute them, and retry their dead jobs.

The roll-up makes them, from failed runs; see ``actions/roll_up.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from horae.actions.jobs import jobs
from horae.core.audit.entries import Entry
from horae.core.error_groups import KEPT_DAYS, OTHER, ErrorGroup
from horae.core.jobs.fingerprints import fingerprint as fingerprint_of
from horae.core.jobs.job import SYSTEM
from horae.core.time.instants import aware, instant, iso, micros
from horae.errors import Conflict, InvalidInput, NotAllowed, NotFound
from horae.ports import Tx, World

AT_ONCE = 500  # dead jobs read in one step
MOST_READ = 10_000  # dead jobs read by one call
MOST_REVIVED = 1000  # by one call
DAYS = timedelta(days=30)  # shown of a group


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, whether it is muted now, and how often it was seen by day."""

    group: ErrorGroup
    is_muted: bool
    days: dict[datetime, int]


@dataclass(frozen=True, slots=True)
class Retried:
    """How many dead jobs were revived, how many were not, and whether more may be left."""

    revived: int
    skipped: int = 0
    more: bool = False


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
    fingerprint: str,
    *,
    owner: str = SYSTEM,
    limit: int = MOST_REVIVED,
    actor: str = SYSTEM,
    reason: str = "",
) -> Retried:
    """Revive dead jobs of a group, at most *limit*; call again while ``more`` is true.

    A job that has changed meanwhile, or whose unique name is taken, is skipped.
    """
    if not 1 <= limit <= MOST_REVIVED:
        raise InvalidInput("out_of_range", name="limit", value=limit, least=1, most=MOST_REVIVED)
    numbers, more = find_dead(world, fingerprint, owner=owner, limit=limit)
    revived = 0
    for number in numbers:
        try:
            jobs.revive(world, f"job_{number}", actor=actor, reason=reason)
            revived += 1
        except (Conflict, NotAllowed, NotFound):
            continue
    return Retried(revived, len(numbers) - revived, more and revived > 0)


def find_dead(world: World, fingerprint: str, *, owner: str, limit: int) -> tuple[list[int], bool]:
    """Return the numbers of dead jobs of a group, and whether there may be more.

    Bulk acts may take their jobs from here. A dead job belongs to a group by its last error; nothing is stored for it.
    """
    group = get_group(world, fingerprint, owner=owner).group
    if fingerprint == OTHER:
        raise NotAllowed("error_group_mixed", owner=owner)
    store = world.route(owner=owner).store
    found: list[int] = []
    after = read = 0
    while read < MOST_READ:
        page = store.read(partial(_dead_jobs, owner, after))
        for number, handler, error in page:
            if handler == group.handler and fingerprint_of(handler, error).hash == fingerprint:
                found.append(number)
                if len(found) == limit:
                    return found, True
        if len(page) < AT_ONCE:
            return found, False
        after, read = page[-1][0], read + len(page)
    return found, True


def _dead_jobs(owner: str, after: int, tx: Tx) -> list[tuple[int, str, str]]:
    return tx.error_groups.dead_jobs(owner, after=after, limit=AT_ONCE)


def _known(group: ErrorGroup | None, owner: str, fingerprint: str) -> ErrorGroup:
    if group is None:
        raise NotFound("error_group_unknown", fingerprint=fingerprint, owner=owner, days=KEPT_DAYS)
    return group
