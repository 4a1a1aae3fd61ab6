"""The hash chain of a lane's journal: sealed by the driver every few seconds, by each writer where none drives."""

from __future__ import annotations

from horae.core.attention.lanes import hash_line
from horae.core.audit.chain import GENESIS
from horae.ports import Tx, World

BATCH = 500


def seal(world: World, lane: int, limit: int = BATCH) -> int:
    """Chain the lines that are not chained yet and return their number; under the lane's lock, one sealer at a time."""

    def write(tx: Tx) -> int:
        found = tx.attention.lane_by_number(lane, lock=True)
        return 0 if found is None else seal_within(tx, lane, limit)

    return world.route().store.transact(write)


def seal_within(tx: Tx, lane: int, limit: int = BATCH) -> int:
    """Chain them in a transaction that holds the lane's lock."""
    last = tx.attention.last_sealed(lane)
    previous, since = (GENESIS, 0) if last is None else (str(last.hash), last.seq)
    lines = tx.attention.lines(lane, since=since, limit=limit)
    hashes: dict[int, str] = {}
    for line in lines:
        hashes[line.seq] = previous = hash_line(previous, line)
    tx.attention.seal(lane, hashes)
    return len(lines)


def seal_left(world: World, limit: int = BATCH) -> int:
    """Chain what dead drivers left, and drivers in the middle of a long action."""
    return sum(seal(world, lane) for lane in world.route().store.read(lambda tx: tx.attention.unsealed(limit)))
