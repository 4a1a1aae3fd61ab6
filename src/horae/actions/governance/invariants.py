"""Check every governed object against what must hold, from tables and entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge

from horae.actions.governance.policies import policies_of
from horae.actions.governance.surroundings import FLOOR, SHARE
from horae.core.audit.entries import Entry
from horae.core.governance.invariants import Broken, check_object
from horae.core.governance.objects import GovernedObject
from horae.ports.store import Store, Tx
from horae.ports.world import World

PAGE = 200  # objects read at once


def check_objects(world: World, *, owner: str | None = None, most: int = 1000) -> list[Broken]:
    """Return up to *most* things that do not hold, over all objects or those of one owner, as of one moment.

    In a cluster also entries count that have stayed in other databases.
    """
    elsewhere = [] if world.cluster is None else [shard.route().store for shard in world.databases()]

    def read(tx: Tx) -> list[Broken]:
        found: list[Broken] = []
        for page in _pages(tx, owner):
            found += _check_page(tx, page, elsewhere)
            if len(found) >= most:
                break
        return (found + _check_removals(tx, owner) + _check_jobs(tx, most))[:most]

    return world.route(owner=owner).store.read(read, unbounded=True)


def _pages(tx: Tx, owner: str | None) -> Iterator[list[GovernedObject]]:
    after = 0
    while page := tx.objects.walk(owner=owner, after=after, limit=PAGE):
        yield page
        after = page[-1].number


def _check_page(tx: Tx, page: list[GovernedObject], elsewhere: Sequence[Store]) -> list[Broken]:
    policies = policies_of(tx, {each.owner for each in page})
    jobs = tx.objects.live_jobs(page)
    found: list[Broken] = []
    for it in page:
        versions = list(reversed(tx.objects.versions(it.number)))
        found += check_object(it, policies.of(it), jobs.get(it.number), _all_entries(tx, it, elsewhere), versions)
    return found


def _all_entries(tx: Tx, it: GovernedObject, elsewhere: Sequence[Store]) -> list[Entry]:
    """Return all entries about an object, the oldest first: those of a database as they were written, merged by time
    with those of others.
    """
    own = _entries(tx, it)
    known = {number for number, _ in own}
    others = [[each for each in store.read(partial(_entries, it=it)) if each[0] not in known] for store in elsewhere]
    merged = merge(*others, own, key=lambda each: each[1].at)  # which keeps the order of each, whatever a clock did
    return [entry for _, entry in merged]


def _entries(tx: Tx, it: GovernedObject) -> list[tuple[int, Entry]]:
    """Return the entries about an object in one database, with their numbers, the oldest first."""
    found: list[tuple[int, Entry]] = []
    before: int | None = None
    while page := tx.audit.find(object_id=it.id, object_type=it.kind, owner=it.owner, limit=1000, before=before):
        found += page
        before = page[-1][0]
    return found[::-1]


def _check_jobs(tx: Tx, most: int) -> list[Broken]:
    """G5: no object has a second live job."""
    return [
        Broken("G5 one live job", f"{job.owner} {job.object_type}:{job.object_id}", {"job": job.id, "state": job.state})
        for job in tx.objects.superfluous_jobs(limit=most)
    ]


def _check_removals(tx: Tx, owner: str | None) -> list[Broken]:
    """G9: on no day more was archived than the cap of that day."""
    found = []
    for each in tx.objects.removals(owner):
        cap = max(FLOOR, (each.live or 0) // SHARE)
        if each.removed > cap:
            facts = {"day": each.day.isoformat(), "removed": each.removed, "cap": cap}
            found.append(Broken("G9 removals of a day", each.owner, facts))
    return found
