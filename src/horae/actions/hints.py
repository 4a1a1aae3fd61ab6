"""Hints of the store: something may have happened. Nothing depends on them; who misses one looks again later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horae.ports.world import World


def subscribe(world: World, listener: Callable[[str], None]) -> Callable[[], None]:
    """Call *listener*, from any thread, with the name of each hint; return what ends that."""
    return world.route().store.subscribe(listener)


def hears(world: World) -> bool:
    """Return whether hints of other processes arrive here at the moment."""
    return world.route().store.hears()
