"""Which parts of an installation have changed, for those who watch it."""

from __future__ import annotations

from horae.actions.shards import ask_all
from horae.core.pulse import Marks, mark
from horae.ports.world import World


def read_marks(world: World) -> Marks:
    """Look at the store once, and return a mark of each part: marks that differ mean that something changed."""
    if world.cluster is not None:
        looks = ask_all(world, read_marks)
        return {part: mark(look.get(part) for look in looks) for part in looks[0]}
    found = world.route().store.read(lambda tx: tx.pulse.look())
    return {part: mark(values) for part, values in found.items()}
