"""The verbs of a cluster: make one of a database, add another, look whether all agree.

Every new version of the map is decided in the first database by compare-and-set, with its audit entry, then copied to
the others. A process that dies in between leaves copies that are behind; they refuse what they do not keep all the
same, and :func:`check` with *repair* finishes the copy.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from horae.core.audit.entries import Entry
from horae.core.cluster.messages import undelivered
from horae.core.cluster.shard_map import SALT_BYTES, Member, ShardMap, first_map
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.errors import ConfigurationError, Conflict, HoraeError, NotAllowed

if TYPE_CHECKING:
    from horae.ports.cluster import Shards
    from horae.ports.store import Store, Tx
    from horae.ports.world import World

UNDELIVERED = timedelta(minutes=1)  # a message that waits for longer is worth a look


@dataclass(frozen=True, slots=True)
class UndeliveredState:
    """What a database still has for another, for how many seconds the oldest has waited, and how many of it are jobs
    of callers' transactions.
    """

    to: str
    count: int
    age: float
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class MemberState:
    """A database of a cluster as it was found; *problem* says why it could not be asked."""

    number: int
    name: str
    address: str
    vshards: int
    version: int | None = None  # of its copy of the map
    moving: int = 0  # virtual shards that are marked, so that nothing can be written in them, or announced here
    problem: str | None = None
    undelivered: tuple[UndeliveredState, ...] = ()
    takes_shards: bool = True  # false: it is there for the transactions of callers alone

    def is_well(self, version: int) -> bool:
        return self.problem is None and self.version == version and not self.moving


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The map's version, and each database."""

    version: int
    members: tuple[MemberState, ...]

    @property
    def is_well(self) -> bool:
        return all(each.is_well(self.version) for each in self.members)

    @property
    def empty(self) -> tuple[str, ...]:
        """The databases that keep nothing: just added after rows were stored, or drained."""
        return tuple(each.name for each in self.members if not each.vshards and each.takes_shards)


def init(world: World, *, name: str, address: str, actor: str = SYSTEM, reason: str = "") -> ShardMap:
    """Make a database the first of a cluster. Its rows stay where they are, and so do their ids.

    Processes that are running must be started anew: without a map their inserts are refused from now on.
    """
    from horae.actions.settings.kinds import adopt

    salt = bytes.fromhex(world.dice.name(2 * SALT_BYTES))
    shard_map = first_map(name, address, salt)

    def write(tx: Tx) -> ShardMap:
        known = tx.cluster.read_map()
        if known is not None:
            raise Conflict("cluster_exists", name=known.members[0].name, version=known.version)
        number = shard_map.members[0].number
        tx.cluster.join(shard_map, number)
        adopt(tx, number, world.clock.now())
        tx.audit.append(entry_for(world, "init_cluster", name, actor, reason, address=address))
        return shard_map

    return world.route().store.transact(write)


def add(
    world: World,
    joining: World,
    *,
    name: str,
    address: str,
    takes_shards: bool = True,
    actor: str = SYSTEM,
    reason: str = "",
) -> ClusterState:
    """Add an empty database, opened by itself, and where nothing is stored yet give it its share of the shards.

    One that *takes_shards* not keeps none, ever: callers join their own transactions there, and jobs go on from it. Its
    number is decided first; repeated after a death in the middle, it goes on where it stopped.
    """
    from horae.actions.settings.catching_up import catch_up, catch_up_all

    shard_map = known_map(world)
    standing, unused = joining.route().store.read(lambda tx: (tx.cluster.standing(), tx.cluster.is_unused()))
    member = next((each for each in shard_map.members if (each.name, each.address) == (name, address)), None)
    if standing is not None and (member is None or member.number != standing.number):
        raise Conflict("cluster_database_taken", address=address, number=standing.number)
    if standing is None and not unused:
        raise NotAllowed("cluster_database_used", address=address)
    if member is None:
        entry = entry_for(world, "add_to_cluster", name, actor, reason, address=address)
        after = shard_map.add(name, address, takes_shards=takes_shards)
        shard_map = decide_map(world, shard_map, after, entry)
        member = shard_map.named(name)
    if standing is None:
        number = member.number
        joining.route().store.transact(lambda tx: tx.cluster.join(shard_map, number))
    copy_map(world, shard_map)
    catch_up(world, member.number)  # with no share of any limit, before it keeps anything
    share_empty(world, member, actor=actor)
    catch_up_all(world)
    return look(world)


def share_empty(world: World, member: Member, *, actor: str = SYSTEM) -> list[int]:
    """Give a new database its share of the virtual shards, where nothing is stored in any of them; return which.

    They are marked first, which waits for writers, so that nothing can be stored after the look. A process that dies
    in between leaves them marked; adding the same database again finishes it.
    """
    shard_map = known_map(world)
    share = shard_map.share_for(member.number)
    chosen = {each.number: [v for v in share if shard_map.database_of(v) == each.number] for each in shard_map.members}
    marked: list[int] = []
    try:
        for number, vshards in chosen.items():
            marked.append(number)
            if vshards and not _mark_unused(shards_of(world).store_of(number), vshards):
                return []
        if share:
            entry = entry_for(world, "share_cluster", member.name, actor, "", count=len(share))
            copy_map(world, decide_map(world, shard_map, shard_map.move(share, member.number), entry))
        marked.clear()
        return share
    finally:
        for number in marked:
            _free(shards_of(world).store_of(number), chosen[number])


def _mark_unused(store: Store, vshards: list[int]) -> bool:
    def write(tx: Tx) -> bool:
        tx.cluster.mark(vshards, "moving")
        return not _on_the_way(tx) and tx.cluster.is_unused()

    return store.transact(write)


def _free(store: Store, vshards: list[int]) -> None:
    store.transact(lambda tx: tx.cluster.mark(set(vshards) - _on_the_way(tx), "owned"))


def _on_the_way(tx: Tx) -> set[int]:
    """Return the virtual shards of parcels, which stay closed until those have arrived."""
    return {vshard for each in (*tx.parcels.packed(), *tx.parcels.expected()) for vshard in each.vshards}


def look(world: World) -> ClusterState:
    """Return the map and each database as it is; one that does not answer is named."""
    shard_map = known_map(world)
    counts = shard_map.counts
    found = []
    for member in shard_map.members:
        state = MemberState(member.number, member.name, member.address, counts[member.number])
        state = replace(state, takes_shards=member.takes_shards)
        try:
            store = shards_of(world).store_of(member.number)
            standing, moving, waiting = store.read(
                lambda tx: (tx.cluster.standing(), _on_the_way(tx).union(tx.cluster.marked()), tx.messages.waiting())
            )
            now = shards_of(world).whole(world, member.number).clock.now()
            left = tuple(
                UndeliveredState(each.to, each.count, max(0.0, (now - each.oldest).total_seconds()), each.jobs)
                for each in undelivered(shard_map, waiting)
            )
            version = None if standing is None else standing.version
            found.append(replace(state, version=version, moving=len(moving), undelivered=left))
        except HoraeError as problem:
            found.append(replace(state, problem=str(problem)))
    newest = max([shard_map.version, *(each.version or 0 for each in found)])
    return ClusterState(newest, tuple(found))


def check(world: World, *, repair: bool = False) -> ClusterState:
    """Look at each database; with *repair* bring copies of the map up to date, finish moves that were left or never
    packed anything, and ask again for what jobs wait for in other shards.

    The highest version is copied, whichever database has it: after a restore that may be another than the first.
    """
    if repair:
        from horae.actions.announcements import drop_unpacked
        from horae.actions.messages import ask_again
        from horae.actions.moves import finish
        from horae.actions.restore import newest_map
        from horae.actions.settings.catching_up import catch_up_all

        copy_map(world, newest_map(world))
        drop_unpacked(world)
        finish(world)
        ask_again(world)
        catch_up_all(world)
    return look(world)


def known_map(world: World) -> ShardMap:
    """Return the newest map."""
    return shards_of(world).refresh()


def shards_of(world: World) -> Shards:
    """Return the databases of the cluster; refuse a world without one."""
    if world.cluster is None:
        raise ConfigurationError("cluster_missing")
    return world.cluster


def decide_map(world: World, before: ShardMap, after: ShardMap, entry: Entry) -> ShardMap:
    """Write a new version in the first database, if no other was written since."""

    def write(tx: Tx) -> None:
        if not tx.cluster.replace_map(after, expected=before.version):
            standing = tx.cluster.standing()
            version = 0 if standing is None else standing.version
            raise Conflict("cluster_map_changed", version=version, expected=before.version)
        tx.audit.append(entry)

    shards_of(world).store_of(after.members[0].number).transact(write)
    return known_map(world)


def copy_map(world: World, shard_map: ShardMap, *, without: Collection[int] = ()) -> None:
    """Write the map to every database that is behind; one that does not answer gets it later."""
    for member in shard_map.members:
        if member.number in without:
            continue
        with suppress(HoraeError):
            shards_of(world).store_of(member.number).transact(lambda tx: tx.cluster.copy_map(shard_map))


def entry_for(world: World, verb: str, name: str, actor: str, reason: str, **after: Any) -> Entry:
    """Return the audit entry of a change of the cluster."""
    return Entry(
        at=world.clock.now(), actor=actor, verb=verb, object_type="cluster", object_id=name, reason=reason or None,
        after=after,
    )  # fmt: skip
