"""The journal of a lane: read it, verify it, and rebuild the lane as of a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from horae.actions.attention.journal_chain import lines_between, seal
from horae.actions.attention.lanes import CONTROL, get_lane
from horae.actions.attention.repairs import missing_in
from horae.actions.consistency import one_moment
from horae.core.attention.lanes import Folded, Line, alive, as_of, complaints, fold, picture
from horae.core.audit.chain import GENESIS
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import encode
from horae.errors import InvalidInput
from horae.ports.store import Tx
from horae.ports.world import World

PAGE = 1000
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of verifying a journal."""

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
            lines = list(lines_between(tx, found.number, 0))
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
        problems += _wrong_pictures(tx, found.number, lines)
        problems += missing_in(tx, lane=found.number).sentences()
        return Verified(lane, len(lines), sum(line.hash is not None for line in lines), tuple(problems))

    return world.route(owner=owner).store.read(read)


def _forbidden(lines: Sequence[Line]) -> str | None:
    """Return the operator's last override in the journal, as the lane stores it."""
    last = next((line for line in reversed(lines) if line.cause == CONTROL), None)
    switches = None if last is None else last.details.get("switches")
    return encode(switches) if switches else None


@one_moment
def at(world: World, lane: str, seq: int, *, owner: str = SYSTEM) -> Folded:
    """Return the lane as it was after a line: tasks, waits, events and facts, their texts by digest.

    What had ended before that line is left out; the last picture and the lines after it are all that is read.
    """
    found = get_lane(world, lane, owner=owner)
    if not 0 <= seq <= found.seq:
        raise InvalidInput("journal_line_unknown", lane=lane, line=seq, last=found.seq)

    def read(tx: Tx) -> Folded:
        picture = tx.attention.picture(found.number, seq)
        lines = list(lines_between(tx, found.number, 0 if picture is None else picture.seq, seq))
        return as_of(fold(lines, picture), lines[-1] if lines else None)

    return world.route(owner=owner).store.read(read)


@dataclass(frozen=True, slots=True)
class JournalHead:
    """The last line of a journal that is sealed: its hash holds every line up to it in place."""

    lane: str
    owner: str
    seq: int
    hash: str


def head(world: World, lane: str, *, owner: str = SYSTEM) -> JournalHead:
    """Seal what is written so far and return the head of the journal; kept elsewhere, it proves what was there."""
    found = get_lane(world, lane, owner=owner)
    while seal(world.route(owner=owner), found.number):
        pass
    last = world.route(owner=owner).store.read(lambda tx: tx.attention.last_sealed(found.number))
    return JournalHead(lane, owner, *((0, GENESIS) if last is None else (last.seq, str(last.hash))))


def _wrong_pictures(tx: Tx, lane: int, lines: Sequence[Line]) -> Iterator[str]:
    """Yield a sentence for each picture that differs from the lines up to it."""
    folded, done = fold(()), 0
    for seq in tx.attention.pictured(lane):
        stored, folded, done = tx.attention.picture(lane, seq), fold(lines[done:seq], folded), seq
        if stored is None or stored.tables != alive(folded):
            yield f"the picture after line {seq} differs from the journal"
