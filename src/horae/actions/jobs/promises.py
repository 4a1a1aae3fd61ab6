"""What waits, starts later or recurs, and lacks the job or the fire that sees to it."""

from __future__ import annotations

from horae.actions.attention import repairs as lanes
from horae.actions.schedules import repairs as schedules
from horae.actions.schedules.repairs import AT_ONCE
from horae.ports.store import Tx
from horae.ports.world import World


def find_missing(world: World, *, limit: int = AT_ONCE) -> list[str]:
    """Return a sentence for each, up to *limit* of each kind, over all lanes and schedules."""

    def read(tx: Tx) -> list[str]:
        found = lanes.missing_in(tx, limit=limit), schedules.missing_in(tx, world.clock.now(), limit=limit)
        return [sentence for each in found for sentence in each.sentences()]

    return world.route().store.read(read)
