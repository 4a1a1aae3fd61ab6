"""Bringing back one database of a cluster: what it must know of the others before it may serve again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from horae.core.cluster.moves import AT_ONCE, Parcel
from horae.core.cluster.shard_map import ShardMap
from horae.core.dataclass import dataclass

# How many numbers are passed over after a restore, above the highest that any database knows: more jobs than one
# database stores between two copies (twelve days at 1,000 a second), and one of 64 such jumps that its range allows.
SKIPPED_DRAWS = 1 << 30
SKIPPED_NUMBERS = 1 << 36  # the same for tables whose numbers carry no virtual shard: one of 4,096


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What the others say of a database that was restored from a copy."""

    number: int
    shard_map: ShardMap  # the new version, decided on
    highest: Mapping[str, int] = field(default_factory=dict)  # of its numbers, by table, that others know
    awaited: tuple[Parcel, ...] = ()  # that others still expect from it
    coming: tuple[Parcel, ...] = ()  # that others have packed for it, or are about to


@dataclass(frozen=True, slots=True)
class Settled:
    """What was done in a database that was restored."""

    running: int = 0  # attempts that were under way in the copy, to be handed on
    strays: int = 0  # rows of shards that have left since the copy was made: they live elsewhere
    sent: int = 0  # rows of shards that were given to another database, which lacks them


def newest_of(copies: Iterable[ShardMap]) -> ShardMap:
    """Return the highest version: each was decided in the first database, before any was copied."""
    return max(copies, key=lambda each: each.version)


def owed_parcels(
    here: Collection[int], there: ShardMap, number: int, newest: ShardMap, announced: Collection[int]
) -> list[tuple[int, ...]]:
    """Return which of the virtual shards that a copy has *here* another database must still get, as many as go at once.

    Those that the newest map gives to the other, *number*, whose own map, *there*, does not know of it: it never got
    their rows. What is *announced* there comes by another parcel.
    """
    owed = [
        vshard
        for vshard in sorted(here)
        if newest.places[vshard] == number and there.places[vshard] != number and vshard not in announced
    ]
    return [tuple(owed[start : start + AT_ONCE]) for start in range(0, len(owed), AT_ONCE)]
