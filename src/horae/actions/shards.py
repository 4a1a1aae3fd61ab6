"""What concerns rows in several databases of a cluster, by database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from horae.core.cluster.numbers import vshard_of_id
from horae.core.jobs.job import SYSTEM
from horae.errors import ConfigurationError, InvalidInput, NotAllowed, StoreBusy, StoreError
from horae.ports.world import World

if TYPE_CHECKING:
    from horae.core.cluster.shard_map import Member
    from horae.ports.store import Tx

T = TypeVar("T")
AWAY = (StoreError, ConfigurationError)  # the latter: what answers at its address is not that member
SLOW = 2.0  # seconds: a database that gave no answer for so long is silent, and not merely refuses
SPARED_FOR = 10.0  # seconds


def group_by_shard(world: World, items: Iterable[T], id_of: Callable[[T], str]) -> list[tuple[World, list[T]]]:
    """Return items with the plain world of the database that keeps each, those of one database together."""
    found: dict[int, tuple[World, list[T]]] = {}
    for item in items:
        [shard] = world.within(id=id_of(item))
        found.setdefault(id(shard.route().store), (shard, []))[1].append(item)
    return list(found.values())


def members(world: World) -> list[Member]:
    """Return the databases of a cluster that keep something."""
    assert world.cluster is not None
    shard_map = world.cluster.shard_map
    counts = shard_map.counts
    return [each for each in shard_map.members if counts[each.number]]


def ask_each(
    world: World,
    ask: Callable[[World, int], T],
    among: Collection[int] | None = None,
    *,
    in_order: Sequence[int] = (),
    asked: Iterable[Member] | None = None,
    spares: bool = False,
) -> tuple[dict[int, T], tuple[str, ...]]:
    """Ask each database of a cluster, or those *among* them; return answers by number, and the names of those that
    gave none within their timeouts. Where none answers, that is an error. *in_order* says who is asked first,
    *asked* who at all, where that is not every one that keeps something.

    With *spares* a database that was silent is not asked again for a while, so that only one answer waits for it.
    """
    assert world.cluster is not None
    found, away, problem = dict[int, T](), list[str](), None
    known, clock, silences = members(world) if asked is None else asked, world.clock, world.cluster.silences
    for member in sorted(known, key=lambda each: in_order.index(each.number)) if in_order else known:
        if among is not None and member.number not in among:
            continue
        began = clock.monotonic()
        until, silent = silences.get(member.number, (began, None))
        if spares and silent is not None and began < until:
            away.append(member.name)
            problem = problem or silent
            continue
        try:
            found[member.number] = ask(world.cluster.whole(world, member.number), member.number)
            silences.pop(member.number, None)
        except AWAY as missing:
            away.append(member.name)
            problem = problem or missing
            if clock.monotonic() - began > SLOW:
                silences[member.number] = (clock.monotonic() + SPARED_FOR, missing)
    if not found and problem is not None:
        raise problem
    return found, tuple(away)


def share_of(world: World, most: int) -> dict[int, int]:
    """Return the share of each database in a limit over all; fewer than there are databases cannot be shared."""
    numbers = [each.number for each in members(world)]
    if most < len(numbers):
        raise InvalidInput("limit_below_databases", max_running=most, databases=len(numbers))
    whole, rest = divmod(most, len(numbers))
    return {number: whole + (index < rest) for index, number in enumerate(numbers)}


def ask_all(world: World, ask: Callable[[World], T]) -> list[T]:
    """Ask the database, or every one of a cluster that answers, for what may lack the others."""
    if world.cluster is None:
        return [ask(world)]
    return list(ask_each(world, lambda shard, _: ask(shard))[0].values())


def seek(world: World, name: str, owner: str | None, read: Callable[[Tx], T | None]) -> T | None:
    """Read something by its id. One from before the cluster names no shard, and its owner may have moved: where the
    caller knows no owner every database is asked, because ids are unique among them.
    """
    found = world.route(owner=owner, id=name).store.read(read)
    if found is not None or world.cluster is None or owner is not None or vshard_of_id(name) is not None:
        return found
    for shard in world.databases():
        found, on_the_way = shard.route().store.read(lambda tx: (read(tx), tx.parcels.packed()))
        if found is not None:
            return found
        if on_the_way:
            raise StoreBusy("vshard_busy", vshard=on_the_way[0].vshards[0])
    return None


def look_at_owner(world: World, owner: str) -> None:
    """Look whether a tenant still is where the map says; where it has left, the map is read again."""
    world.route(owner=owner).store.read(lambda tx: None)


def refuse_partial(world: World, owner: str | None) -> None:
    """Refuse what would show the home database alone where the house has rows in all of them."""
    if world.cluster is not None and owner in (None, SYSTEM):
        raise NotAllowed("shows_one_database")
