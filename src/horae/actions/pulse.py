"""Which parts of an installation have changed, for those who watch it."""

from __future__ import annotations

from horae.core.pulse import Marks, mark
from horae.ports.world import World


def read_marks(world: World) -> Marks:
    """Look at the store once, and return a mark of each part: marks that differ mean that something changed."""
    found = world.route().store.read(lambda tx: tx.pulse.look())
    return {part: mark(values) for part, values in found.items()}
