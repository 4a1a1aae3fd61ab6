"""What concerns rows in several databases of a cluster, by database."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from horae.ports.world import World

T = TypeVar("T")


def group_by_shard(world: World, items: Iterable[T], id_of: Callable[[T], str]) -> list[tuple[World, list[T]]]:
    """Return items with the plain world of the database that keeps each, those of one database together."""
    found: dict[int, tuple[World, list[T]]] = {}
    for item in items:
        [shard] = world.within(id=id_of(item))
        found.setdefault(id(shard.route().store), (shard, []))[1].append(item)
    return list(found.values())
