"""The journals of lanes: lines, their seals, and pictures of what was alive after some of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from horae.core.attention.lanes import Line, Picture
from horae.core.time.instants import micros
from horae.stores.tables.attention import JOURNAL, PICTURES, journal, lanes, pictures

WRITE = insert(journal)
SEAL = update(journal).where(
    journal.c.lane_id == bindparam("lane"), journal.c.seq == bindparam("line"), journal.c.hash.is_(None)
)
NOTED = select(journal.c.seq).where(
    journal.c.lane_id == bindparam("lane_id"),
    journal.c.task_id == bindparam("task_id"),
    journal.c.cause == bindparam("cause"),
    journal.c.at >= bindparam("since"),
)
LAST_PICTURE = (
    select(*PICTURES.select)
    .where(pictures.c.lane_id == bindparam("lane_id"), pictures.c.seq <= bindparam("seq"))
    .order_by(pictures.c.seq.desc())
    .limit(1)
)


class JournalRows:
    """The journals of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def write(self, line: Line) -> None:
        self.connection.execute(WRITE, JOURNAL.row(line))

    def lines(
        self, lane: int, *, since: int = 0, limit: int, task: int | None = None, until: int | None = None
    ) -> list[Line]:
        """Return the lines after *since*, up to *until*, in order."""
        query = select(*JOURNAL.select).where(journal.c.lane_id == lane, journal.c.seq > since)
        query = query if task is None else query.where(journal.c.task_id == task)
        query = query if until is None else query.where(journal.c.seq <= until)
        rows = self.connection.execute(query.order_by(journal.c.seq).limit(limit))
        return [read_line(row) for row in rows]

    def is_noted(self, lane: int, task: int, cause: str, since: datetime) -> bool:
        """Return whether the journal has a line of a cause about a task, since an instant."""
        where = {"lane_id": lane, "task_id": task, "cause": cause, "since": micros(since)}
        return self.connection.execute(NOTED, where).first() is not None

    def picture(self, lane: int, seq: int) -> Picture | None:
        """Return the last picture of a lane up to a line."""
        row = self.connection.execute(LAST_PICTURE, {"lane_id": lane, "seq": seq}).first()
        return None if row is None else PICTURES.read(row)

    def last_picture(self, lane: int) -> tuple[int, int]:
        """Return the line of the last picture and how many rows it has, without reading it."""
        query = select(pictures.c.seq, pictures.c.row_count).where(pictures.c.lane_id == lane)
        row = self.connection.execute(query.order_by(pictures.c.seq.desc()).limit(1)).first()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def pictured(self, lane: int) -> list[int]:
        """Return the lines after which there is a picture."""
        query = select(pictures.c.seq).where(pictures.c.lane_id == lane).order_by(pictures.c.seq)
        return [int(seq) for seq in self.connection.execute(query).scalars()]

    def keep_picture(self, picture: Picture) -> None:
        self.connection.execute(insert(pictures), PICTURES.row(picture))

    def last_sealed(self, lane: int) -> Line | None:
        query = select(*JOURNAL.select).where(journal.c.lane_id == lane, journal.c.hash.is_not(None))
        row = self.connection.execute(query.order_by(journal.c.seq.desc()).limit(1)).first()
        return None if row is None else read_line(row)

    def unsealed(self, limit: int) -> list[int]:
        """Return lanes whose last line is not sealed."""
        last = (journal.c.lane_id == lanes.c.id) & (journal.c.seq == lanes.c.seq)
        query = select(lanes.c.id).join(journal, last).where(journal.c.hash.is_(None)).order_by(lanes.c.id)
        return list(self.connection.execute(query.limit(limit)).scalars())

    def seal(self, lane: int, hashes: Mapping[int, str]) -> None:
        """Give lines their hashes, by their numbers."""
        rows = [{"lane": lane, "line": seq, "hash": hash_text} for seq, hash_text in hashes.items()]
        if rows:
            self.connection.execute(SEAL, rows)


def read_line(row: Row[Any]) -> Line:
    """Read a line of the journal; an unreadable one raises an error with its number, for the verification."""
    try:
        return JOURNAL.read(row)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"line {row.seq} is not a line of a journal") from None
