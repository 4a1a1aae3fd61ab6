"""From the world of one database to that of its cluster, where it is a member of one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from horae.core.timeouts import Timeouts
from horae.errors import HoraeError

if TYPE_CHECKING:
    from horae.ports.world import Clock, World
    from horae.stores.store import SqlStore


def with_cluster(
    world: World,
    store: SqlStore,
    *,
    urls: str | None = None,
    make_clock: Callable[[SqlStore], Clock],
    timeouts: Timeouts | None = None,
    held_too: bool = False,
) -> World:
    """Return the world of the cluster that a database is a member of; unchanged where it is in none.

    *urls* are those of members whose address in the map does not do, as in ``HORAE_CLUSTER_URLS``. With *held_too* also
    databases are opened that were restored from a copy and are not settled yet.
    """
    standing = store.read(lambda tx: tx.cluster.standing())
    if standing is None:
        return world
    from horae.stores.cluster.addresses import read_urls
    from horae.stores.cluster.cluster import Cluster, check_standing

    shard_map = store.read(lambda tx: tx.cluster.read_map())
    assert shard_map is not None
    number = abs(standing.number)
    check_standing(standing, shard_map.member(number), held_too=held_too)
    cluster = Cluster(
        store,
        shard_map,
        number,
        urls=read_urls(urls),
        make_clock=make_clock,
        pause=world.clock.pause,
        timeouts=timeouts,
        held_too=held_too,
    )
    with suppress(HoraeError):  # where the first database is away, the copy of this one does: a fence guards it
        cluster.refresh()
    return replace(world, store=cluster.home(), cluster=cluster)
