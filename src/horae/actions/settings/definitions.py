"""Definitions in a cluster: decided and copied some hundred at once, because a worker stores all of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from horae.actions.jobs.definitions import find_changed, put_definitions, release_held
from horae.actions.settings.decisions import shard_of
from horae.actions.settings.kinds import definition_value, read_definition
from horae.actions.shards import AWAY, members
from horae.core.cluster.settings import WHOLE, SharedSetting, next_version
from horae.core.time.instants import micros

if TYPE_CHECKING:
    from horae.errors import HoraeError
    from horae.ports.definitions import StoredDefinition
    from horae.ports.store import Tx
    from horae.ports.world import World

log = logging.getLogger("horae.definitions")
BATCH = 500  # in one transaction
Wanted = Mapping[str, "StoredDefinition"]


def decide_definitions(world: World, wanted: Wanted, reason: str) -> list[StoredDefinition]:
    """Store definitions in the first database that answers, where they differ there, and copy them to the others.

    Return those that changed. A database that does not answer follows later.
    """
    made, decider = _decide_somewhere(world, wanted, reason)
    for member in members(world):
        with suppress(*AWAY):
            if member.number != decider:
                copy_definitions(world, member.number, made)
            if any(each.tenants for each in wanted.values()):
                release_held(shard_of(world, member.number, "definition")[0])
    return [read_definition(each) for each in made]


def _decide_somewhere(world: World, wanted: Wanted, reason: str) -> tuple[list[SharedSetting], int]:
    problem: HoraeError | None = None
    for member in members(world):
        try:
            shard, _ = shard_of(world, member.number, "definition")
            return _decide(shard, wanted, member.number, reason), member.number
        except AWAY as missing:
            problem = problem or missing
    raise problem or AssertionError("a cluster has a database that keeps something")


def _decide(shard: World, wanted: Wanted, number: int, reason: str) -> list[SharedSetting]:
    store, now = shard.route().store, micros(shard.clock.now())

    def find(tx: Tx) -> list[StoredDefinition]:
        """Return what differs, or was never decided about in this cluster."""
        known = {name for kind, name in tx.settings.heads() if kind == "definition"}
        changed = {each.name: each for each in find_changed(wanted.values(), tx.definitions.all())}
        return [each for name, each in sorted(wanted.items()) if name in changed or name not in known]

    def write(tx: Tx) -> list[SharedSetting]:
        tx.definitions.lock()
        changed = find(tx)
        known = tx.settings.lock("definition", [each.name for each in changed])
        put_definitions(tx, changed, tx.definitions.all(), reason)
        made = [
            SharedSetting(
                "definition", each.name, next_version(known[each.name].version, now), number, definition_value(each),
                each.stored_by, reason, WHOLE,
            )
            for each in changed
        ]  # fmt: skip
        tx.settings.put(*made)
        return made

    return store.transact(write) if store.read(find) else []


def copy_definitions(world: World, number: int, settings: Sequence[SharedSetting]) -> int:
    """Take decisions about definitions over in one database, where it has no later ones; return how many."""
    shard, _ = shard_of(world, number, "definition")
    done, opened = 0, False
    for start in range(0, len(settings), BATCH):
        written = shard.route().store.transact(_writing(settings[start : start + BATCH]))
        done += len(written)
        opened = opened or any(each.value["tenants"] for each in written)
    if opened:
        release_held(shard)
    return done


def _writing(some: Sequence[SharedSetting]) -> Callable[[Tx], list[SharedSetting]]:
    def write(tx: Tx) -> list[SharedSetting]:
        tx.definitions.lock()
        known = tx.settings.lock("definition", [each.name for each in some])
        newer = [each for each in some if (each.rank, WHOLE) > (known[each.name].rank, known[each.name].applied)]
        for reason in sorted({each.reason for each in newer}):
            ours = [read_definition(each) for each in newer if each.reason == reason]
            put_definitions(tx, ours, tx.definitions.all(), reason)
        tx.settings.put(*(replace(each, applied=WHOLE) for each in newer))
        return newer

    return write
