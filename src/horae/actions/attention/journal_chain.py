"""The hash chain of a lane's journal: sealed by the driver every few seconds, by each writer where none drives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from horae.core.attention.lanes import Lane, Line, Picture, alive, fold, hash_line
from horae.core.audit.chain import GENESIS
from horae.errors import StoreError
from horae.ports.store import Tx
from horae.ports.world import World

BATCH = 500
EVERY = 1000  # lines between two pictures, where little is alive
PAGE = 1000


def seal(world: World, lane: int, limit: int = BATCH) -> int:
    """Chain the lines that are not chained yet and return their number; under the lane's lock, one sealer at a time."""

    def write(tx: Tx) -> int:
        found = tx.attention.lane_by_number(lane, lock=True)
        return 0 if found is None else seal_within(tx, lane, limit)

    sealed = world.route().store.transact(write)
    take_picture(world, lane)
    return sealed


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


def take_picture(world: World, lane: int) -> bool:
    """Fold what was alive after a line into a picture, where one is due; return whether it was.

    The next one is due after as many lines as the last one has rows, and EVERY at least: so pictures cost no more than
    the lines, however much is alive. Lines never change, so that they are folded without the lane's lock.
    """
    picture = world.route().store.read(lambda tx: _due_picture(tx, lane))
    if picture is None:
        return False

    def write(tx: Tx) -> None:
        if tx.attention.lane_by_number(lane, lock=True) is None:  # it has left this database meanwhile
            return
        if tx.attention.last_picture(lane)[0] < picture.seq:
            tx.attention.keep_picture(picture)

    world.route().store.transact(write)
    return True


def picture_passed(world: World, lane: Lane, sealed_from: int | None) -> None:
    """Take the picture that lines which a writer has sealed, as no driver does, have made due.

    What these lines tell is committed: a database that fails now costs a picture, not the answer to the caller.
    """
    if sealed_from is not None and sealed_from // EVERY < lane.seq // EVERY:
        with suppress(StoreError):
            take_picture(world, lane.number)


def _due_picture(tx: Tx, lane: int) -> Picture | None:
    since, rows = tx.attention.last_picture(lane)
    until, sealed = since + max(EVERY, rows), tx.attention.last_sealed(lane)
    if sealed is None or sealed.seq < until:
        return None
    tables = alive(fold(lines_between(tx, lane, since, until), tx.attention.picture(lane, since)))
    return Picture(lane, until, sum(len(each) for each in tables.values()), tables)


def lines_between(tx: Tx, lane: int, since: int, until: int | None = None) -> Iterator[Line]:
    """Yield the lines after one, up to and including another, page by page."""
    while page := tx.attention.lines(lane, since=since, limit=PAGE, until=until):
        yield from page
        since = page[-1].seq


def seal_left(world: World, limit: int = BATCH) -> int:
    """Chain what dead drivers left, and drivers in the middle of a long action."""
    return sum(seal(world, lane) for lane in world.route().store.read(lambda tx: tx.attention.unsealed(limit)))
