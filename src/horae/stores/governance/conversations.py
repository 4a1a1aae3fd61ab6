"""Delete what agents keep of conversations where it repeats a text: threads of checkpoints, sessions, documents.

A checkpoint holds the whole state of a graph in one value, and items of a session answer each other: neither can be
changed inside without being broken, so a thread or a session goes as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    text,
)

from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.adapters import checkpoint_writes, checkpoints, documents, session_items

ENCRYPTED = "+"  # in the kind of a value: LangGraph names its cipher behind it


class Conversations:
    """What erasure deletes of the tables of adapters, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.position = BY_NAME[connection.dialect.name].bytes_position

    def delete_threads(self, owner: str, needles: Sequence[str], *, limit: int) -> int:
        """Delete threads of checkpoints that contain one of the texts, up to *limit*; return how many."""
        kept = checkpoints.c
        written = and_(checkpoint_writes.c.place == kept.place, self._bytes(checkpoint_writes, needles))
        hit = or_(
            _texts([kept.thread_id, kept.namespace, kept.about, kept.run_id], needles),
            self._bytes(checkpoints, needles),
            exists().where(written),
        )
        query = select(kept.thread_id).where(kept.owner == owner, hit).distinct().limit(limit)
        found = list(self.connection.execute(query).scalars())
        if found:
            whole = and_(kept.owner == owner, kept.thread_id.in_(found))
            places = list(self.connection.execute(select(kept.place).where(whole).distinct()).scalars())
            self.connection.execute(delete(checkpoint_writes).where(checkpoint_writes.c.place.in_(places)))
            self.connection.execute(delete(checkpoints).where(whole))
        return len(found)

    def delete_stray_writes(self, needles: Sequence[str]) -> None:
        """Delete writes behind no checkpoint, which a crash has left and no thread owns."""
        stray = ~exists().where(checkpoints.c.place == checkpoint_writes.c.place)
        self.connection.execute(delete(checkpoint_writes).where(stray, self._bytes(checkpoint_writes, needles)))

    def delete_sessions(self, owner: str, needles: Sequence[str], *, limit: int) -> int:
        """Delete sessions of which an item contains one of the texts, up to *limit*; return how many."""
        kept = session_items.c
        hit = _texts([kept.session_id, kept.item], needles)
        query = select(kept.session_id).where(kept.owner == owner, hit).distinct().limit(limit)
        found = list(self.connection.execute(query).scalars())
        if found:
            self.connection.execute(delete(session_items).where(kept.owner == owner, kept.session_id.in_(found)))
        return len(found)

    def delete_documents(self, owner: str, needles: Sequence[str]) -> int:
        """Delete documents that contain one of the texts; return how many."""
        hit = _texts([documents.c.name, documents.c.body], needles)
        return self.connection.execute(delete(documents).where(documents.c.owner == owner, hit)).rowcount

    def count_encrypted(self, owner: str) -> int:
        """Return how many threads cannot be searched, because their checkpoints are encrypted."""
        threads = func.count(func.distinct(checkpoints.c.thread_id))
        sealed = checkpoints.c.kind.contains(ENCRYPTED, autoescape=True)
        return int(self.connection.execute(select(threads).where(checkpoints.c.owner == owner, sealed)).scalar_one())

    def _bytes(self, table: Table, needles: Sequence[str]) -> ColumnElement[bool]:
        found = []
        for number, needle in enumerate(needles):
            name = f"{table.name}_{number}"
            sql = text(f"{self.position}({table.name}.body, :{name}) > 0")
            found.append(sql.bindparams(bindparam(name, needle.encode(), LargeBinary)))
        return or_(*found)


def _texts(columns: Sequence[ColumnElement[str]], needles: Sequence[str]) -> ColumnElement[bool]:
    return or_(*(column.contains(needle, autoescape=True) for column in columns for needle in needles))
