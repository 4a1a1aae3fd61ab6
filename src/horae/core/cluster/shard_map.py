"""The map of a cluster: which database keeps each virtual shard, and to which of them a row belongs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Literal

from horae.core.cluster.numbers import FIRST_DATABASE, LAST_DATABASE, VSHARDS
from horae.core.dataclass import dataclass
from horae.errors import Conflict, InvalidInput, NotAllowed, NotFound

HOME = 0  # the virtual shard of everything of the house that has no key
SALT_BYTES = 16
NAME_LENGTH = 40
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")

Kind = Literal["owner", "key", "shard_key", "name"]
VshardState = Literal["owned", "moving"]


@dataclass(frozen=True, slots=True)
class Member:
    """A database of a cluster. Its number is given once and never again; its address holds no password."""

    number: int
    name: str
    address: str
    takes_shards: bool = True  # false: it is there for the transactions of callers alone


@dataclass(frozen=True, slots=True)
class ShardMap:
    """One version of the map."""

    version: int
    salt: bytes
    members: tuple[Member, ...]
    places: tuple[int, ...]  # the number of the database of each virtual shard
    next_number: int  # that the next database gets

    # -- to which shard a row belongs ----------------------------------------------------------------------------

    def hash(self, kind: Kind, text: str) -> int:
        """Return the virtual shard of a name; the same text of another kind is a stranger."""
        return hash_vshard(self.salt, kind, text)

    def vshard_of(self, *, owner: str | None = None, key: str | None = None, shard_key: str | None = None) -> int:
        """Return the virtual shard of what has this owner, or of what the house keeps by a key; else the home."""
        if owner is not None:
            return self.hash("owner", owner)
        if shard_key is not None:
            return self.hash("shard_key", shard_key)
        return HOME if key is None else self.hash("key", key)

    @property
    def mark(self) -> str:
        """Return a name of this cluster that every database of it knows, and that does not tell the salt."""
        return blake2b(self.salt, digest_size=6, person=b"horae bus").hexdigest()

    # -- where a shard lives -------------------------------------------------------------------------------------

    def database_of(self, vshard: int) -> int:
        return self.places[vshard]

    def member(self, number: int) -> Member:
        for each in self.members:
            if each.number == number:
                return each
        raise NotFound("cluster_member_unknown", member=str(number), known=[each.name for each in self.members])

    def named(self, name: str) -> Member:
        for each in self.members:
            if each.name == name:
                return each
        raise NotFound("cluster_member_unknown", member=name, known=[each.name for each in self.members])

    def owned_by(self, number: int) -> list[int]:
        """Return the virtual shards of a database."""
        return [vshard for vshard, place in enumerate(self.places) if place == number]

    @property
    def sharded(self) -> tuple[Member, ...]:
        """The databases that keep virtual shards, or did: where anything of jobs may be that have arrived.

        Processes look after them all: what happened in one that was drained is still published, sealed and deleted.
        """
        return tuple(each for each in self.members if each.takes_shards)

    @property
    def counts(self) -> Mapping[int, int]:
        """How many virtual shards each database keeps."""
        return {each.number: self.places.count(each.number) for each in self.members}

    # -- the next version ----------------------------------------------------------------------------------------

    def add(self, name: str, address: str, *, takes_shards: bool = True) -> ShardMap:
        """Return the map with one more database, which keeps nothing yet."""
        check_name(name)
        if any(each.name == name for each in self.members):
            raise Conflict("cluster_member_exists", member=name)
        if any(each.address == address for each in self.members):
            raise Conflict("cluster_address_exists", address=address)
        if self.next_number > LAST_DATABASE:
            raise InvalidInput("cluster_numbers_used_up", most=LAST_DATABASE)
        members = (*self.members, Member(self.next_number, name, address, takes_shards))
        return replace(self, version=self.version + 1, members=members, next_number=self.next_number + 1)

    def move(self, vshards: Collection[int], to: int) -> ShardMap:
        """Return the map with these virtual shards in another database; refuse one that takes none."""
        self.refuse_shardless(to)
        moved = frozenset(vshards)
        places = tuple(to if vshard in moved else place for vshard, place in enumerate(self.places))
        return replace(self, version=self.version + 1, places=places)

    def refuse_shardless(self, number: int) -> None:
        """Refuse to give virtual shards to a database that takes none."""
        if not self.member(number).takes_shards:
            raise NotAllowed("cluster_member_shardless", member=self.member(number).name)

    def restored(self, numbers: Collection[int], address: str | None = None) -> ShardMap:
        """Return the next version, in which nothing moves: moves that were planned before are refused.

        With *address* the one database that was restored is found there from now on.
        """
        members = tuple(
            replace(each, address=address) if address is not None and each.number in numbers else each
            for each in self.members
        )
        return replace(self, version=self.version + 1, members=members)

    def share_for(self, number: int) -> list[int]:
        """Return the virtual shards that an empty database should get, so that all keep about as many.

        They are taken from those that keep most, the highest first; the home stays where it is.
        """
        kept = {each.number: self.owned_by(each.number) for each in self.members if each.takes_shards}
        if number not in kept:
            return []
        fair = VSHARDS // len(kept)
        chosen: list[int] = []
        while len(kept[number]) + len(chosen) < fair:
            fullest = max((each for each in kept if each != number), key=lambda each: len(kept[each]), default=None)
            if fullest is None or len(kept[fullest]) <= fair or kept[fullest][-1] == HOME:
                break
            chosen.append(kept[fullest].pop())
        return sorted(chosen)


def first_map(name: str, address: str, salt: bytes) -> ShardMap:
    """Return the map of a cluster of one database, which keeps everything."""
    check_name(name)
    member = Member(FIRST_DATABASE, name, address)
    return ShardMap(1, salt, (member,), (FIRST_DATABASE,) * VSHARDS, FIRST_DATABASE + 1)


def hash_vshard(salt: bytes, kind: Kind, text: str) -> int:
    """Return the virtual shard of a text: a keyed hash, so that no tenant can aim at a shard."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt, person=f"horae.{kind}".encode())
    return int.from_bytes(digest.digest(), "big") % VSHARDS


def check_name(name: str) -> None:
    if not (0 < len(name) <= NAME_LENGTH and set(name) <= _LETTERS):
        raise InvalidInput("cluster_name_unusable", name=name)
