"""One database of a cluster comes back from a copy: it fits the others again before it serves anything.

The copy is older than the others. Its map may give it shards that have left since, whose rows would run twice; it does
not know of parcels that are on the way; and it would give numbers once more that were given after the copy was made. So
it is *held*, closed to everybody, until one transaction has put all that right. Every other database must answer
meanwhile, because each may know what the copy does not; they go on serving. A process that dies in the middle leaves it
held, and the act is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import permutations
from typing import TYPE_CHECKING

from horae.actions.cluster import copy_map, entry_for, shards_of
from horae.actions.jobs import endings
from horae.actions.messages import ask_again
from horae.actions.moves import ID_LENGTH, finish
from horae.actions.settings.catching_up import catch_up_all
from horae.core.cluster.moves import Parcel
from horae.core.cluster.restore import RestorePlan, Settled, newest_of, owed_parcels
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.errors import Conflict, HoraeError, StoreUnavailable

if TYPE_CHECKING:
    from horae.core.audit.entries import Entry
    from horae.core.cluster.shard_map import ShardMap
    from horae.ports.cluster import Standing
    from horae.ports.store import Store, Tx
    from horae.ports.world import World

LOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done: for each database that was restored, by its name."""

    version: int
    databases: Mapping[str, Settled]
    parcels: int  # that were on the way, and have been brought to their end


@dataclass(frozen=True, slots=True)
class Copy:
    """A database as it was found: what it says of itself, and its copy of the map."""

    standing: Standing
    shard_map: ShardMap


def restored(world: World, *, address: str | None = None, actor: str = SYSTEM, reason: str = "") -> Restored:
    """Let the opened database serve again after a restore, and all others of its cluster that are held.

    The highest version of the map that any database has is taken, also where the first database itself was restored.
    With *address* the opened one is found there from now on.
    """
    shards = shards_of(world)
    opened = shards.opened(world).route().store
    named = abs(_read(opened).standing.number)
    copies = _read_all(world)
    newest = newest_of(each.shard_map for each in copies.values())
    numbers = sorted({named, *(number for number, each in copies.items() if each.standing.is_held)})
    for number in numbers:
        shards.store_of(number).transact(lambda tx: tx.restoring.hold())
    _announce_owed(world, numbers, copies, newest)
    entry = entry_for(world, "restore_in_cluster", newest.member(named).name, actor, reason, databases=len(numbers))
    after = _decide(world, numbers, copies, newest.restored([named], address), entry)
    settled = {after.member(number).name: _settle(world, number, after, entry) for number in numbers}
    shards.refresh()
    parcels = finish(world, actor=actor)
    for number in numbers:
        _hand_on(world, number)
    catch_up_all(world)  # the copy has the shares and settings of its day
    ask_again(world)
    return Restored(after.version, settled, parcels)


def newest_map(world: World) -> ShardMap:
    """Return the highest version of the map among the databases that answer."""
    found = [shards_of(world).refresh()]
    for member in found[0].members:
        copy = _try_read(world, member.number)
        found += [] if copy is None else [copy.shard_map]
    return newest_of(each for each in found if each.salt == found[0].salt)


def refuse_older_first(world: World) -> None:
    """Refuse to change the map while another database has a newer one than the first: that would win over it."""
    shards = shards_of(world)
    members = shards.refresh().members
    versions: dict[str, int] = {}
    for member in reversed(members):  # the first at the end: a copy that was read before cannot be ahead of it
        with suppress(HoraeError):  # one that is away can decide nothing
            standing = shards.store_of(member.number).read(lambda tx: tx.cluster.standing())
            versions[member.name] = 0 if standing is None else standing.version
    first = versions.get(members[0].name)
    for name, version in versions.items():
        if first is not None and version > first:
            raise Conflict("cluster_map_older", version=first, name=name, newest=version)


# -- looking -----------------------------------------------------------------------------------------------------------


def _read(store: Store) -> Copy:
    def read(tx: Tx) -> Copy:
        standing, shard_map = tx.cluster.standing(), tx.cluster.read_map()
        assert standing is not None
        assert shard_map is not None
        return Copy(standing, shard_map)

    return store.read(read)


def _try_read(world: World, number: int) -> Copy | None:
    try:
        return _read(shards_of(world).store_of(number))
    except HoraeError:
        return None


def _read_all(world: World) -> dict[int, Copy]:
    """Return every database of the cluster; refuse where one does not answer."""
    shards, found, away = shards_of(world), dict[int, Copy](), list[str]()
    while missing := [each for each in shards.shard_map.members if each.number not in found and each.name not in away]:
        for member in missing:  # one of them may know a newer map, which may name another
            copy = _try_read(world, member.number)
            if copy is None or copy.shard_map.salt != shards.shard_map.salt:
                away.append(member.name)
            else:
                found[member.number] = copy
    if away:
        raise StoreUnavailable("cluster_restore_needs_all", databases=away)
    return found


# -- the steps ---------------------------------------------------------------------------------------------------------


def _announce_owed(world: World, numbers: Collection[int], copies: Mapping[int, Copy], newest: ShardMap) -> None:
    """Announce what a restored database must send to another that lacks it, before that one learns the newest map."""
    shards = shards_of(world)
    for source, target in permutations(copies, 2):
        if source in numbers:
            store = shards.store_of(target)
            announced = {vshard for each in store.read(lambda tx: tx.parcels.expected()) for vshard in each.vshards}
            here = {*copies[source].shard_map.owned_by(source), *_packed_in(shards.store_of(source))}
            for vshards in owed_parcels(here, copies[target].shard_map, target, newest, announced):
                parcel = Parcel(world.dice.name(ID_LENGTH), source, target, vshards)
                store.transact(lambda tx: tx.parcels.expect(parcel))  # noqa: B023 - called at once


def _packed_in(store: Store) -> set[int]:
    return {vshard for each in store.read(lambda tx: tx.parcels.packed()) for vshard in each.vshards}


def _decide(
    world: World, numbers: Collection[int], copies: Mapping[int, Copy], after: ShardMap, entry: Entry
) -> ShardMap:
    """Write a new version that refuses all moves planned before it; a held database gets it when it is settled."""
    first = after.members[0].number
    expected = copies[first].standing.version

    def write(tx: Tx) -> None:
        if not tx.cluster.replace_map(after, expected=expected):
            standing = tx.cluster.standing()
            raise Conflict("cluster_map_changed", version=standing.version if standing else 0, expected=expected)
        tx.audit.append(entry)

    if first not in numbers:
        shards_of(world).store_of(first).transact(write)
    copy_map(world, after, without=numbers)
    return after


def _settle(world: World, number: int, after: ShardMap, entry: Entry) -> Settled:
    """Gather what the others know of a held database, and open it."""
    shards, highest = shards_of(world), dict[str, int]()
    awaited, coming = list[Parcel](), list[Parcel]()
    content: list[tuple[str, str]] = []
    for member in after.members:
        if member.number == number:
            continue
        store = shards.store_of(member.number)
        expected, packed, known = store.read(
            lambda tx: (tx.parcels.expected(), tx.parcels.packed(), tx.restoring.highest(number))
        )
        highest = {name: max(highest.get(name, 0), known.get(name, 0)) for name in (*highest, *known)}
        awaited += [each for each in expected if each.source == number]
        for parcel in packed:
            if parcel.target == number:
                coming.append(parcel)
                content += store.read(lambda tx: tx.parcels.content(parcel), unbounded=True)  # noqa: B023 - called at once
    own = shards.store_of(number)
    coming += [each for each in own.read(lambda tx: tx.parcels.expected()) if _is_held(world, each.source, number)]
    plan = RestorePlan(number, after, highest, tuple(awaited), tuple({each.id: each for each in coming}.values()))

    def write(tx: Tx) -> Settled:
        tx.restoring.remove_same(content)
        if number == after.members[0].number:
            tx.audit.append(entry)
        return tx.restoring.settle(plan)

    return own.transact(write)


def _is_held(world: World, source: int, number: int) -> bool:
    """Return whether what is expected from a database may still be packed there, because it is not settled yet."""
    return source != number and _read(shards_of(world).store_of(source)).standing.is_held


def _hand_on(world: World, number: int) -> None:
    """Close the attempts that were under way in the copy, as those of a worker that died."""
    here = shards_of(world).whole(world, number)
    while endings.lose_expired(here, limit=LOST_AT_ONCE):
        continue
