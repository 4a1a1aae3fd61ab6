"""Bring a database of a cluster up to date: apply every decision that another database has and this one lacks.

A database pulls for itself, so that one which was away, or was added later, needs only a keeper.
Who decides meanwhile, or pulls the same at once, changes nothing: each copy is written behind its lock, by rank.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress

from horae.actions.settings.decisions import apply_setting, cluster_of
from horae.actions.settings.definitions import copy_definitions
from horae.actions.settings.shares import redivide
from horae.actions.shards import AWAY
from horae.core.cluster.settings import SHARED, WHOLE, Kind, SharedSetting, find_behind
from horae.core.jobs.job import SYSTEM
from horae.ports.world import World

log = logging.getLogger("horae.settings")
Key = tuple[Kind, str]


def catch_up(world: World, number: int) -> int:
    """Apply what one database lacks, and shares that have changed with the map; return how many settings."""
    cluster = cluster_of(world)
    with suppress(*AWAY):  # the known map does while the first database is away
        cluster.refresh()
    store = cluster.store_of(number)
    known, elsewhere = store.read(lambda tx: tx.settings.heads()), {}
    for member in cluster.shard_map.sharded:
        if member.number == number:
            continue
        try:
            elsewhere[member.number] = cluster.store_of(member.number).read(lambda tx: tx.settings.heads())
        except AWAY as missing:
            log.debug("database %s cannot be asked for settings: %s", member.name, missing)
    done = 0
    for source, keys in find_behind(known, elsewhere).items():
        done += _pull(world, number, source, keys)
    changed = [key for key, head in known.items() if key[0] not in SHARED and head.applied != WHOLE]
    unseen = _find_unseen(world, number, [name for kind, name in changed if kind == "mute"])
    done += _apply_again(world, number, [key for key in changed if key[0] != "mute" or key[1] not in unseen])
    return done + redivide(world, number)


def catch_up_here(everywhere: World, world: World) -> int:
    """Apply what the database of a plain world lacks; where a world has the whole cluster, bring all up to date."""
    if world.cluster is not None:
        return catch_up_all(everywhere)
    standing = world.route().store.read(lambda tx: tx.cluster.standing())
    return 0 if standing is None else catch_up(everywhere, standing.number)


def catch_up_all(world: World) -> int:
    """Bring every database that answers up to date; return how many settings were applied."""
    done = 0
    for member in cluster_of(world).shard_map.sharded:
        try:
            done += catch_up(world, member.number)
        except AWAY as missing:
            log.debug("database %s cannot be brought up to date now: %s", member.name, missing)
    return done


def find_lagging(world: World) -> dict[str, int]:
    """Return how many settings databases lack that answer, by name; none where all have all."""
    cluster, heads = cluster_of(world), {}
    for member in cluster.shard_map.sharded:
        try:
            heads[member.number] = cluster.store_of(member.number).read(lambda tx: tx.settings.heads())
        except AWAY:
            continue
    behind = {each: find_behind(heads[each], heads) for each in heads}
    return {
        cluster.shard_map.member(each).name: sum(map(len, found.values())) for each, found in behind.items() if found
    }


def _pull(world: World, number: int, source: int, keys: Collection[Key]) -> int:
    try:
        found = cluster_of(world).store_of(source).read(lambda tx: tx.settings.find(keys))
    except AWAY as missing:  # it answered a moment ago; the next round tries again
        log.debug("settings cannot be copied from database %s now: %s", source, missing)
        return 0
    return _apply(world, number, found)


def _find_unseen(world: World, number: int, fingerprints: Collection[str]) -> set[str]:
    """Return the groups of errors that a database has not seen: muting them has to wait until it has."""
    if not fingerprints:
        return set()
    store = cluster_of(world).store_of(number)
    return store.read(lambda tx: {each for each in fingerprints if tx.error_groups.get(SYSTEM, each) is None})


def _apply_again(world: World, number: int, keys: Collection[Key]) -> int:
    if not keys:
        return 0
    return _apply(world, number, cluster_of(world).store_of(number).read(lambda tx: tx.settings.find(keys)))


def _apply(world: World, number: int, settings: Collection[SharedSetting]) -> int:
    definitions = [each for each in settings if each.kind == "definition"]
    done = copy_definitions(world, number, definitions) if definitions else 0
    for each in settings:
        if each.kind == "definition":
            continue
        copied = apply_setting(world, number, each)
        if copied.answer is not None:
            log.info("%s %s of version %s was applied in database %s", each.kind, each.name, each.version, number)
        done += not copied.is_refused
    return done
