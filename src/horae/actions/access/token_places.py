"""Where access tokens are: with their owner. An id that was made in a cluster names the virtual shard.

An id from before the cluster names none: every database is asked for it once, and the answer is kept as a hint. It is
unknown only where every database says so at a moment at which no shard is on the way: a database that is away, or a
token whose shard is being moved, is an error of the store and never an invalid token.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from horae.actions.shards import AWAY, members
from horae.core.access.callers import Token, vshard_of_token
from horae.core.jobs.job import SYSTEM
from horae.errors import StoreBusy

if TYPE_CHECKING:
    from horae.ports.cluster import Shards
    from horae.ports.store import Tx
    from horae.ports.world import World

TRIES = 3  # to ask every database while the map does not change
MOST_HINTS = 10_000


class FoundToken(NamedTuple):
    """A token, and the world that keeps it: what is written there is refused while its shard is being moved."""

    world: World
    token: Token


def find_token(world: World, token_id: str) -> FoundToken | None:
    """Return a token and where it is; None where it does not exist."""
    vshard, cluster = vshard_of_token(token_id), world.cluster
    if cluster is None or vshard is not None:
        shard = world if cluster is None or vshard is None else cluster.bind(world, vshard)
        found = shard.route().store.read(lambda tx: tx.tokens.get(token_id))
        return None if found is None else FoundToken(shard, found)
    return _find_by_hint(world, cluster, token_id) or _find_everywhere(world, cluster, token_id)


def write_token(world: World, token_id: str, write: Callable[[Tx], Token | None]) -> Token | None:
    """Write where a token is; None where it does not exist. *write* returns None where it is not there any more.

    In a cluster it may leave between the look and the write: then it is looked for again.
    """
    if world.cluster is None:
        return world.route().store.transact(write)
    for _ in range(TRIES):
        found = find_token(world, token_id)
        written = None if found is None else found.world.route().store.transact(write)
        if found is None or written is not None:
            return written
    raise StoreBusy("token_on_the_way")


def database_of_token(world: World, token_id: str) -> int | None:
    """Return the database that should have a token, as far as this process knows without asking."""
    assert world.cluster is not None
    vshard = vshard_of_token(token_id)
    return world.cluster.token_hints.get(token_id) if vshard is None else world.cluster.shard_map.database_of(vshard)


def _find_by_hint(world: World, cluster: Shards, token_id: str) -> FoundToken | None:
    number = cluster.token_hints.get(token_id)
    if number is None:
        return None
    found = cluster.store_of(number).read(lambda tx: tx.tokens.get(token_id))
    return None if found is None else FoundToken(_shard_with(world, cluster, number, found), found)


def _find_everywhere(world: World, cluster: Shards, token_id: str) -> FoundToken | None:
    for _ in range(TRIES):
        version, problem, is_moving = cluster.shard_map.version, None, False
        for member in members(world):
            try:
                found, packed = cluster.store_of(member.number).read(lambda tx: _look(tx, token_id))
            except AWAY as missing:
                problem = problem or missing
                continue
            if found is not None:
                if len(cluster.token_hints) >= MOST_HINTS:
                    cluster.token_hints.clear()
                cluster.token_hints[token_id] = member.number
                return FoundToken(_shard_with(world, cluster, member.number, found), found)
            is_moving = is_moving or packed
        if problem is not None:
            raise problem
        if not is_moving and cluster.refresh().version == version:
            return None
    raise StoreBusy("token_on_the_way")


def _look(tx: Tx, token_id: str) -> tuple[Token | None, bool]:
    """Return the token, and whether any rows are on the way from or to this database."""
    return tx.tokens.get(token_id), bool(tx.parcels.packed() or tx.parcels.expected())


def _shard_with(world: World, cluster: Shards, number: int, token: Token) -> World:
    """Return the world of a token's owner where that is in the database that has the token, else of the database."""
    vshard = cluster.shard_map.vshard_of(owner=None if token.owner == SYSTEM else token.owner)
    if cluster.shard_map.database_of(vshard) != number:
        with suppress(*AWAY):  # it may have been moved since this process read the map
            cluster.refresh()
    is_there = cluster.shard_map.database_of(vshard) == number
    return cluster.bind(world, vshard) if is_there else cluster.whole(world, number)
