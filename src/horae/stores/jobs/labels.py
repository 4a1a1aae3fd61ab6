"""The map of labels: reading what is to be labelled, adding to it, following it, forgetting the jobs that are gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    Text,
    cast,
    delete,
    func,
    select,
    text,
    update,
)

from horae.core.jobs.labels import BLOCK, Blocks, Label, Labelled, Labelling
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.jobs import FINISHED_JOBS, JOBS, jobs, runs
from horae.stores.tables.labels import LABELLING, labelling, labels

ROWS = 1000  # of the map in one statement
READ = ("queue", "handler", "owner", "tags", "object_type", "object_id")
KEY = ("kind", "label", "block")
MAP = (*KEY, "members")


class Labels:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = BY_NAME[connection.dialect.name]

    # -- how far it reaches ------------------------------------------------------------------------------------

    def state(self, *, lock: bool = False) -> Labelling:
        """Return how far the map reaches; *lock* keeps that from changing until the transaction ends."""
        query = select(*LABELLING.select).where(labelling.c.id == 1)
        found = self.connection.execute(query.with_for_update() if lock else query).first()
        if found is None and lock:
            row, (before, behind) = LABELLING.row(Labelling()), self.dialect.insert_ignore
            names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
            self.connection.execute(text(f"{before} {labelling.name} ({names}) VALUES ({marks}) {behind}"), row)
            found = self.connection.execute(query.with_for_update()).one()
        return Labelling() if found is None else LABELLING.read(found)

    def save(self, state: Labelling) -> None:
        self.connection.execute(update(labelling).where(labelling.c.id == 1).values(LABELLING.row(state)))

    def next_number(self) -> int:
        """Return a number above every one that has been drawn and is on record."""
        ends = [self.connection.execute(select(func.max(column))).scalar() for column in (jobs.c.id, runs.c.job_id)]
        return 1 + max(int(end or 0) for end in ends)

    def horizon(self) -> int:
        """Return the number of the first transaction that begins after now; 0 where none is needed."""
        return self._number(self.dialect.next_transaction)

    def has_passed(self, horizon: int) -> bool:
        """Return whether every transaction that began before a horizon has ended."""
        return horizon == 0 or self._number(self.dialect.first_open_transaction) >= horizon

    def _number(self, sql: str) -> int:
        return int(self.connection.execute(text(sql)).scalar_one()) if sql else 0

    def reach(self, low: int, high: int, rows: int) -> int:
        """Return how far from *low* a step over so many live and so many ended rows reaches, up to *high*."""
        ends = [high]
        for column in (jobs.c.id, runs.c.job_id):
            beyond = select(column).where(column >= low, column < high).order_by(column).offset(rows).limit(1)
            end = self.connection.execute(beyond).scalar()
            ends += [] if end is None else [int(end)]
        return max(min(ends), low + 1)

    # -- writing -----------------------------------------------------------------------------------------------

    def read_live(self, low: int, high: int) -> list[Labelled]:
        """Return the jobs with these numbers that have not ended."""
        return self._read(JOBS.table.c.id, JOBS, low, high)

    def read_ended(self, low: int, high: int) -> list[Labelled]:
        return self._read(runs.c.job_id, FINISHED_JOBS, low, high)

    def read_numbered(self, numbers: Sequence[int]) -> list[Labelled]:
        """Return those of these jobs that have not ended."""
        return self._alike(JOBS.table.c.id, JOBS, JOBS.table.c.id.in_(numbers))

    def _read(self, column: Column[Any], reader: Any, low: int, high: int) -> list[Labelled]:
        return self._alike(column, reader, column >= low, column < high)

    def _alike(self, column: Column[Any], reader: Any, *conditions: ColumnElement[bool]) -> list[Labelled]:
        """Let the database put together what is alike: a step over thousands of jobs must not keep Python busy."""
        block = (column // BLOCK).label("block")
        bits = func.sum(cast(1, BigInteger).op("<<")(cast(column % BLOCK, Integer)))
        alike = [cast(reader[name], Text) if name == "tags" else reader[name] for name in READ]
        query = select(block, bits, *alike).where(*conditions).group_by(block, *alike)
        query = query if reader is JOBS else query.where(runs.c.state.is_not(None))
        return [
            Labelled(int(block), int(members), queue, handler, owner, tuple(json.loads(tags or "[]")), kind, name)
            for block, members, queue, handler, owner, tags, kind, name in self.connection.execute(query)
        ]

    def add(self, blocks: Blocks) -> None:
        """Add jobs to the map; what is there already stays."""
        rows = sorted([*row, bits] for row, bits in blocks.items())
        given = self.dialect.rows_from_json(kind=str, label=str, block=int, members=int)
        behind, new = self.dialect.upsert
        merged = f"members = horae_labels.members | {new.format(name='members')}"
        sql = f"INSERT INTO horae_labels ({', '.join(MAP)}) SELECT {', '.join(MAP)} FROM "
        sql += f"{given} {behind.format(key=', '.join(KEY))} {merged}"
        for start in range(0, len(rows), ROWS):
            self.connection.execute(text(sql), {"rows": json.dumps(rows[start : start + ROWS])})

    # -- reading -----------------------------------------------------------------------------------------------

    def members(self, label: Label, *, before: int | None, limit: int) -> list[int]:
        """Return numbers of jobs that have a label, the highest first: those of so many blocks at most."""
        query = select(labels.c.block, labels.c.members).where(
            labels.c.kind == label.kind, labels.c.label == label.text
        )
        if before is not None:
            query = query.where(labels.c.block <= (before - 1) // BLOCK)
        rows = self.connection.execute(query.order_by(labels.c.block.desc()).limit(limit)).all()
        return _members([(int(block), int(bits)) for block, bits in rows], before)

    # -- forgetting --------------------------------------------------------------------------------------------

    def forget(self, *, limit: int) -> int:
        """Remove blocks below every job that is on record, at most *limit* rows; return how many."""
        firsts = [self.connection.execute(select(func.min(column))).scalar() for column in (jobs.c.id, runs.c.job_id)]
        there = [int(first) for first in firsts if first is not None]
        state = self.state()
        least = min(there, default=state.labelled) // BLOCK
        old = select(labels.c.kind, labels.c.label, labels.c.block).where(labels.c.block < least).limit(limit)
        gone = self.connection.execute(old).all()
        for kind, label, block in gone:
            row = (labels.c.kind == kind, labels.c.label == label, labels.c.block == block)
            self.connection.execute(delete(labels).where(*row))
        return len(gone)


def _members(rows: Sequence[tuple[int, int]], before: int | None) -> list[int]:
    """Return the numbers that these (block, bits) stand for, the highest first, below *before*."""
    numbers = [block * BLOCK + place for block, bits in rows for place in range(BLOCK) if bits >> place & 1]
    return sorted((number for number in numbers if before is None or number < before), reverse=True)
