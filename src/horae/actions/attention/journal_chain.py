"""Chaining the lines of a lane's journal: by its driver every few seconds, by whoever writes where nobody drives."""

from __future__ import annotations

from horae.core.attention.lanes import hash_line
from horae.core.audit.chain import GENESIS
from horae.ports import Tx, World

BATCH = 500


def seal(world: World, lane: int, limit: int = BATCH) -> int:
    """Chain the lines that are not chained yet; how many. Behind the lane's lock, so that two sealers never cross."""

    def write(tx: Tx) -> int:
        found = tx.attention.lane_by_number(lane, lock=True)
        return 0 if found is None else seal_within(tx, lane, limit)

    return world.route().store.transact(write)


def seal_within(tx: Tx, lane: int, limit: int = BATCH) -> int:
    """The same in a transaction that holds the lane's lock."""
    last = tx.attention.last_sealed(lane)
    previous, since = (GENESIS, 0) if last is None else (str(last.hash), last.seq)
    lines = tx.attention.lines(lane, since=since, limit=limit)
    hashes: dict[int, str] = {}
    for line in lines:
        hashes[line.seq] = previous = hash_line(previous, line)
    tx.attention.seal(lane, hashes)
    return len(lines)


def seal_left(world: World, limit: int = BATCH) -> int:
    """Chain what drivers that died have left, and those who are in the middle of something long."""
    return sum(seal(world, lane) for lane in world.route().store.read(lambda tx: tx.attention.unsealed(limit)))
