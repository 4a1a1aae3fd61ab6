"""Announcements of parcels that were never packed: their mover died, or its database was away when it gave up.

Such an announcement stops nothing from being written, but its target says that rows are on the way to it. The mover may
as well be slow, and pack a moment later; a parcel that is no longer expected would be lost. So the version of the map
is raised first: what was planned by an older one can then be packed no more, once the source knows the new one.
"""

from __future__ import annotations

from contextlib import suppress

from horae.actions.cluster import copy_map, decide_map, entry_for, known_map, shards_of
from horae.core.cluster.moves import Parcel
from horae.core.cluster.shard_map import ShardMap
from horae.core.jobs.job import SYSTEM
from horae.errors import Conflict, HoraeError, StoreBusy
from horae.ports.world import World


def drop_unpacked(world: World) -> int:
    """Drop announcements of parcels that can be packed no more; return how many.

    Where a database does not answer, or is held after a restore, its announcements stay until the next time.
    """
    announced = _announced(world)
    before = known_map(world)
    found = [each for each in announced if _can_go(world, each, before)]
    if not found:
        return 0
    entry = entry_for(world, "repair_cluster", before.members[0].name, SYSTEM, "", announcements=len(found))
    with suppress(Conflict, StoreBusy):  # another version does as well: these were announced before it
        decide_map(world, before, before.restored(()), entry)
    after, dropped = known_map(world), 0
    if after.version == before.version:  # a mover is packing in the first database
        return 0
    copy_map(world, after)
    for parcel in found:
        with suppress(HoraeError):
            if _can_go(world, parcel, after):
                shards_of(world).store_of(parcel.target).transact(lambda tx: tx.parcels.discard(parcel))  # noqa: B023 - called at once
                dropped += 1
    return dropped


def _announced(world: World) -> list[Parcel]:
    found: list[Parcel] = []
    for member in known_map(world).members:
        with suppress(HoraeError):
            found += shards_of(world).store_of(member.number).read(lambda tx: tx.parcels.expected())
    return found


def _can_go(world: World, parcel: Parcel, shard_map: ShardMap) -> bool:
    """Return whether a parcel is not packed in its source, which has this version of the map or a newer one.

    Where the map has given its shards to the target it was packed once, and only a restore knows what became of it.
    """
    if parcel.target in map(shard_map.database_of, parcel.vshards):
        return False
    try:
        standing, packed = (
            shards_of(world).store_of(parcel.source).read(lambda tx: (tx.cluster.standing(), tx.parcels.packed()))
        )
    except HoraeError:
        return False
    is_known = standing is not None and standing.number == parcel.source and standing.version >= shard_map.version
    return is_known and parcel not in packed
