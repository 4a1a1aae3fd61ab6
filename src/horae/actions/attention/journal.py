"""The journal of a lane: read it, verify it, and rebuild the lane as of a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from horae.actions.attention.lanes import CONTROL, get_lane
from horae.actions.consistency import one_moment
from horae.actions.jobs.machinery import missing_in
from horae.core.attention.lanes import Line, complaints, fold, picture
from horae.core.cursors import page_size
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import encode
from horae.errors import InvalidInput
from horae.ports import Tx, World

PAGE = 1000
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Verified:
    """What the verification of a journal found."""

    lane: str
    lines: int
    sealed: int
    complaints: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.complaints


@one_moment
def read_journal(
    world: World, lane: str, *, owner: str = SYSTEM, since: int = 0, limit: int = 100, task: int | None = None
) -> list[Line]:
    """Return the lines after *since*, in order."""
    page_size(limit, PAGE)
    found, after = get_lane(world, lane, owner=owner), min(since, MAX_NUMBER)
    return world.route(owner=owner).store.read(
        lambda tx: tx.attention.lines(found.number, since=after, limit=limit, task=task)
    )


@one_moment
def verify(world: World, lane: str, *, owner: str = SYSTEM) -> Verified:
    """Check that the journal has no gap, that its chain holds, and that folding it gives the tables and the override.

    Also that every wait has a job that ends it.
    """
    found = get_lane(world, lane, owner=owner)

    def read(tx: Tx) -> Verified:
        try:
            lines = list(_all_lines(tx, found.number))
            tables = {
                table: {row.number: picture(row) for row in rows}
                for table, rows in tx.attention.everything(found.number).items()
            }
        except ValueError as problem:  # unreadable: not written by Horae
            return Verified(lane, found.seq, 0, (str(problem),))
        problems = complaints(lines, tables)
        now = tx.attention.lane_by_number(found.number)
        if now is not None and now.seq != len(lines):
            problems.append(f"the lane counts {now.seq} lines, the journal has {len(lines)}")
        if now is not None and now.override != _forbidden(lines):
            problems.append("the lane's control differs from the journal")
        problems += missing_in(tx, world.clock.now(), lane=found.number).sentences()
        return Verified(lane, len(lines), sum(line.hash is not None for line in lines), tuple(problems))

    return world.route(owner=owner).store.read(read)


def _forbidden(lines: Sequence[Line]) -> str | None:
    """Return the operator's last override in the journal, as the lane stores it."""
    last = next((line for line in reversed(lines) if line.cause == CONTROL), None)
    switches = None if last is None else last.details.get("switches")
    return encode(switches) if switches else None


@one_moment
def at(world: World, lane: str, seq: int, *, owner: str = SYSTEM) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the lane as it was after a line: tasks, waits, events and facts, their texts by digest."""
    found = get_lane(world, lane, owner=owner)
    if not 0 <= seq <= found.seq:
        raise InvalidInput("journal_line_unknown", lane=lane, line=seq, last=found.seq)
    return world.route(owner=owner).store.read(
        lambda tx: fold(line for line in _all_lines(tx, found.number) if line.seq <= seq)
    )


def _all_lines(tx: Tx, lane: int) -> Iterator[Line]:
    since = 0
    while page := tx.attention.lines(lane, since=since, limit=PAGE):
        yield from page
        since = page[-1].seq
