"""Checkpoints of graphs and the writes behind them: rows to values and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select

from horae.core.time.instants import instant, micros
from horae.ports.adapters import CheckpointFilter, StoredCheckpoint, StoredWrite
from horae.stores.tables.adapters import checkpoint_writes, checkpoints

CHUNK = 500  # ids in one statement


class Checkpoints:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def put(self, checkpoint: StoredCheckpoint) -> None:
        same = checkpoints.c.place == checkpoint.place, checkpoints.c.checkpoint_id == checkpoint.checkpoint_id
        self.connection.execute(delete(checkpoints).where(*same))
        row = {name: getattr(checkpoint, name) for name in StoredCheckpoint.__slots__}
        self.connection.execute(insert(checkpoints), row | {"created_at": micros(checkpoint.created_at)})

    def put_writes(self, writes: Sequence[StoredWrite]) -> None:
        for write in writes:
            same = [checkpoint_writes.c[name] == getattr(write, name) for name in KEY]
            known = self.connection.execute(select(checkpoint_writes.c.idx).where(*same)).first()
            if known is not None and write.idx >= 0:
                continue
            self.connection.execute(delete(checkpoint_writes).where(*same))
            row = {name: getattr(write, name) for name in StoredWrite.__slots__}
            self.connection.execute(insert(checkpoint_writes), row)

    def latest(self, place: str, checkpoint_id: str | None) -> StoredCheckpoint | None:
        query = select(checkpoints).where(checkpoints.c.place == place)
        if checkpoint_id is not None:
            query = query.where(checkpoints.c.checkpoint_id == checkpoint_id)
        found = self._read(query.order_by(checkpoints.c.checkpoint_id.desc()).limit(1))
        return found[0] if found else None

    def find(self, wanted: CheckpointFilter, limit: int) -> list[StoredCheckpoint]:
        kept = checkpoints.c
        query = select(checkpoints).where(kept.owner == wanted.owner)
        for column in ("thread_id", "place", "checkpoint_id"):
            if (value := getattr(wanted, column)) is not None:
                query = query.where(kept[column] == value)
        if wanted.before is not None:
            query = query.where(kept.checkpoint_id < wanted.before)
        if wanted.after is not None:
            last, place = wanted.after
            older = and_(kept.checkpoint_id == last, kept.place < place)
            query = query.where(or_(kept.checkpoint_id < last, older))
        return self._read(query.order_by(kept.checkpoint_id.desc(), kept.place.desc()).limit(limit))

    def of_thread(self, owner: str, thread_id: str) -> list[StoredCheckpoint]:
        query = select(checkpoints).where(checkpoints.c.owner == owner, checkpoints.c.thread_id == thread_id)
        return self._read(query.order_by(checkpoints.c.place, checkpoints.c.checkpoint_id.desc()))

    def of_runs(self, owner: str, run_ids: Collection[str]) -> list[tuple[str, str]]:
        keys = select(checkpoints.c.place, checkpoints.c.checkpoint_id)
        query = keys.where(checkpoints.c.owner == owner, checkpoints.c.run_id.in_(list(run_ids)))
        return [(row.place, row.checkpoint_id) for row in self.connection.execute(query)]

    def writes(self, place: str, checkpoint_ids: Collection[str]) -> list[StoredWrite]:
        found: list[StoredWrite] = []
        for ids in _chunks(checkpoint_ids):
            query = select(checkpoint_writes).where(
                checkpoint_writes.c.place == place, checkpoint_writes.c.checkpoint_id.in_(ids)
            )
            found += [StoredWrite(**row) for row in self.connection.execute(query).mappings()]
        return sorted(found, key=lambda each: (each.checkpoint_id, each.task_path, each.task_id, each.idx))

    def delete(self, place: str, checkpoint_ids: Collection[str]) -> None:
        for ids in _chunks(checkpoint_ids):
            for table in (checkpoints, checkpoint_writes):
                self.connection.execute(delete(table).where(table.c.place == place, table.c.checkpoint_id.in_(ids)))

    def idle_threads(self, owner: str, before: datetime, limit: int) -> list[str]:
        newest = func.max(checkpoints.c.created_at)
        query = select(checkpoints.c.thread_id).where(checkpoints.c.owner == owner).group_by(checkpoints.c.thread_id)
        query = query.having(newest < micros(before)).order_by(newest).limit(limit)
        return list(self.connection.execute(query).scalars())

    def _read(self, query: Select[Any]) -> list[StoredCheckpoint]:
        rows = self.connection.execute(query).mappings()
        return [StoredCheckpoint(**{**row, "created_at": instant(row["created_at"])}) for row in rows]


KEY = ("place", "checkpoint_id", "task_id", "idx")


def _chunks(ids: Collection[str]) -> list[list[str]]:
    known = sorted(ids)
    return [known[first : first + CHUNK] for first in range(0, len(known), CHUNK)]
