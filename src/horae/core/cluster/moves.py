"""Moving virtual shards: what one parcel holds, and which shards go where."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from horae.core.cluster.numbers import VSHARDS, vshard_in
from horae.core.cluster.shard_map import HOME, ShardMap
from horae.core.dataclass import dataclass
from horae.errors import InvalidInput, NotAllowed

ACT_OPEN = "vshard_act_open"  # the refusal of a move while an act of the house walks the database
AT_ONCE = 32  # virtual shards in one parcel: their rows are on the way together, for as long as copying them takes
MOST_AT_ONCE = 1024  # where they have few rows
FEW_ROWS = 500  # in all of them together


@dataclass(frozen=True, slots=True)
class Parcel:
    """Virtual shards on the way from one database to another, under a name that no other move has."""

    id: str
    source: int
    target: int
    vshards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that is under way."""

    number: int
    token: int
    owner: str


class Cargo:
    """Which rows belong to some virtual shards."""

    def __init__(self, shard_map: ShardMap, vshards: Collection[int]) -> None:
        self._map = shard_map
        self.vshards = frozenset(vshards)

    def has_owner(self, owner: str) -> bool:
        """Return whether the rows of a tenant belong to them."""
        return self._map.vshard_of(owner=owner) in self.vshards

    def has_key(self, key: str) -> bool:
        """Return whether what the house keeps by this key belongs to them."""
        return self._map.vshard_of(key=key) in self.vshards

    def has_name(self, name: str) -> bool:
        """Return whether what lives by its name alone, such as a lock, belongs to them."""
        return self._map.hash("name", name) in self.vshards

    def has_number(self, number: int) -> bool | None:
        """Return whether a job belongs to them; None: its number is from before the cluster and does not say."""
        vshard = vshard_in(number)
        return None if vshard is None else vshard in self.vshards

    def has_job(self, number: int, owner: str) -> bool:
        """Return whether a job belongs to them by its number, or one from before the cluster by its owner."""
        known = self.has_number(number)
        return self.has_owner(owner) if known is None else known

    def vshard_of_owner(self, owner: str) -> int:
        return self._map.vshard_of(owner=owner)

    def vshard_of_key(self, key: str) -> int:
        return self._map.vshard_of(key=key)


def read_vshards(text: str) -> list[int]:
    """Read ``17-40,99``; the home cannot be moved."""
    found: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        bounds = (low, high) if dash else (low, low)
        if not all(each.isascii() and each.isdigit() and len(each) < 5 for each in bounds):
            raise InvalidInput("vshards_unreadable", text=text)
        first, last = map(int, bounds)
        if not first <= last < VSHARDS:
            raise InvalidInput("vshards_unreadable", text=text)
        found.update(range(first, last + 1))
    if HOME in found:
        raise NotAllowed("vshard_home_stays")
    return sorted(found)


def even_moves(shard_map: ShardMap) -> list[tuple[list[int], int]]:
    """Return which virtual shards go where, so that every database keeps about as many as any other."""
    moves: list[tuple[list[int], int]] = []
    for member in shard_map.members:
        if share := shard_map.share_for(member.number):
            moves.append((share, member.number))
            shard_map = shard_map.move(share, member.number)
    return moves


def drain_moves(shard_map: ShardMap, number: int) -> list[tuple[list[int], int]]:
    """Return where the virtual shards of a database go, so that it keeps none; the others get about as many each."""
    kept = shard_map.owned_by(number)
    if HOME in kept:
        raise NotAllowed("vshard_home_stays")
    counts = {each.number: shard_map.counts[each.number] for each in shard_map.sharded if each.number != number}
    chosen: dict[int, list[int]] = {each: [] for each in counts}
    for vshard in kept:
        least = min(counts, key=lambda each: (counts[each], each))
        chosen[least].append(vshard)
        counts[least] += 1
    return [(vshards, to) for to, vshards in chosen.items() if vshards]


def sources_of(shard_map: ShardMap, vshards: Collection[int], to: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the databases that keep some of these virtual shards and are not where they go, each with its own."""
    for member in shard_map.members:
        here = [] if member.number == to else sorted(set(vshards).intersection(shard_map.owned_by(member.number)))
        if here:
            yield member.number, here


def next_parcel(left: Sequence[int], rows: Mapping[int, int]) -> Sequence[int]:
    """Return the virtual shards that go next, of those that are left; *rows* says how many each has.

    Each parcel makes a version of the map that every database is told, so that shards with few rows go together. One
    with many goes with few others, which are closed for as long as its rows are on the way.
    """
    count = sum(rows.get(each, 0) for each in left[:AT_ONCE])
    for index, vshard in enumerate(left[AT_ONCE:MOST_AT_ONCE], AT_ONCE):
        count += rows.get(vshard, 0)
        if count > FEW_ROWS:
            return left[:index]
    return left[:MOST_AT_ONCE]
