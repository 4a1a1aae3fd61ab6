"""Hints of the store: something may have happened. Nothing depends on them; who misses one looks again later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from horae.actions.shards import ask_all

if TYPE_CHECKING:
    from horae.ports.world import World


def subscribe(world: World, listener: Callable[[str], None]) -> Callable[[], None]:
    """Call *listener*, from any thread, with the name of each hint; return what ends that."""
    ends = ask_all(world, lambda shard: shard.route().store.subscribe(listener))

    def unsubscribe() -> None:
        for end in ends:
            end()

    return ends[0] if len(ends) == 1 else unsubscribe


def hears(world: World) -> bool:
    """Return whether hints of other processes arrive here at the moment."""
    return all(ask_all(world, lambda shard: shard.route().store.hears()))
