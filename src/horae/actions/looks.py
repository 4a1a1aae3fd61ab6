"""A look at the map of a cluster, for what is held and not found any more, because its shard may have moved.

Claims, endings, renewals and notes enter no shard: they act where the known map says. Who misses something there takes
a look: the map as it is now, and which of the shards are on the way. What is on the way is to be tried again; the rest
is asked for where it is. What is not found there either has left once more if the map has changed since the look, or
the shard is on the way by now; otherwise it is lost. Whatever enters its shard need not do that: it is refused there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from horae.core.cluster.numbers import job_id, vshard_in
from horae.core.dataclass import dataclass
from horae.errors import StoreBusy
from horae.ports.world import World

if TYPE_CHECKING:
    from horae.ports.store import Tx


@dataclass(frozen=True, slots=True)
class Look:
    """The map at one moment: its version, and which of some jobs were in no database."""

    version: int
    away: frozenset[int]


def look(world: World, numbers: Iterable[int]) -> Look:
    """Read the map once, and once from each database that is to keep one of these jobs, so that verbs follow it.

    A new map is in the first database before it is in the one that a shard goes to: until that one knows that it keeps
    the shard, and has opened it, its rows have not come.
    """
    cluster = world.cluster
    assert cluster is not None
    shard_map = cluster.refresh()
    vshards = {number: _vshard_of(world, number) for number in numbers}
    wanted: dict[int, set[int]] = {}
    for vshard in vshards.values():
        if vshard is not None:
            wanted.setdefault(shard_map.database_of(vshard), set()).add(vshard)
    there = {
        vshard for place, few in wanted.items() for vshard in cluster.store_of(place).read(partial(_kept, vshards=few))
    }
    away = (number for number, vshard in vshards.items() if vshard is not None and vshard not in there)
    return Look(shard_map.version, frozenset(away))


def _kept(tx: Tx, vshards: Iterable[int]) -> set[int]:
    return tx.cluster.kept(sorted(vshards))


def _vshard_of(world: World, number: int) -> int | None:
    known = vshard_in(number)
    return known if known is not None or world.cluster is None else world.cluster.forward(job_id(number))


def left_since(world: World, before: Look, missed: Sequence[int]) -> frozenset[int]:
    """Return which jobs that were not found may have left since a look: their shard has moved again."""
    if not missed:
        return frozenset()
    now = look(world, missed)
    return frozenset(missed) if now.version != before.version else now.away


def known_to(world: World) -> Look:
    """Return the map that this process acts by, as a look at nothing: who misses something compares with it."""
    assert world.cluster is not None
    return Look(world.cluster.shard_map.version, frozenset())


def busy(world: World, number: int) -> StoreBusy:
    """Return the refusal of what concerns a job that is on the way: repeat it in a moment."""
    return StoreBusy("vshard_busy", vshard=_vshard_of(world, number))
