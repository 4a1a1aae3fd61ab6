"""Items of agents' sessions, and documents by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, text, update

from horae.core.time.instants import micros
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.adapters import documents, session_items

SESSION = "session"  # the kind of the document whose lock guards the items of a session


class SessionItems:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def lock(self, owner: str, session_id: str, now: datetime) -> None:
        Documents(self.connection).lock(owner, SESSION, session_id, now)

    def add(self, owner: str, session_id: str, items: Sequence[str], now: datetime) -> None:
        first = self.position(owner, session_id) + 1
        rows = [
            {"owner": owner, "session_id": session_id, "position": place, "item": item, "created_at": micros(now)}
            for place, item in enumerate(items, first)
        ]
        if rows:
            self.connection.execute(insert(session_items), rows)

    def items(self, owner: str, session_id: str, limit: int | None) -> list[str]:
        kept = session_items.c
        query = select(kept.item).where(kept.owner == owner, kept.session_id == session_id)
        query = query.order_by(kept.position.desc())
        found = self.connection.execute(query if limit is None else query.limit(limit)).scalars()
        return list(found)[::-1]

    def position(self, owner: str, session_id: str) -> int:
        kept = session_items.c
        highest = select(func.max(kept.position)).where(kept.owner == owner, kept.session_id == session_id)
        return self.connection.execute(highest).scalar() or 0

    def truncate(self, owner: str, session_id: str, position: int) -> None:
        kept = session_items.c
        behind = kept.owner == owner, kept.session_id == session_id, kept.position > position
        self.connection.execute(delete(session_items).where(*behind))


class Documents:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def lock(self, owner: str, kind: str, name: str, now: datetime) -> None:
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        columns = "owner, kind, name, body, created_at, updated_at"
        sql = f"{before} {documents.name} ({columns}) VALUES (:owner, :kind, :name, '', :at, :at) {behind}"
        self.connection.execute(text(sql), {"owner": owner, "kind": kind, "name": name, "at": micros(now)})
        self.connection.execute(select(documents.c.name).where(*_named(owner, kind, name)).with_for_update())

    def get(self, owner: str, kind: str, name: str) -> str | None:
        query = select(documents.c.body).where(*_named(owner, kind, name))
        return self.connection.execute(query).scalar()

    def put(self, owner: str, kind: str, name: str, body: str, now: datetime) -> None:
        changed = update(documents).where(*_named(owner, kind, name)).values(body=body, updated_at=micros(now))
        self.connection.execute(changed)

    def remove(self, owner: str, kind: str, name: str) -> bool:
        return self.connection.execute(delete(documents).where(*_named(owner, kind, name))).rowcount > 0

    def named(self, owner: str, kind: str, prefix: str = "", *, limit: int) -> list[tuple[str, str]]:
        kept = documents.c
        query = select(kept.name, kept.body).where(kept.owner == owner, kept.kind == kind)
        query = query.where(kept.name.startswith(prefix, autoescape=True)).order_by(kept.name).limit(limit)
        return [(row.name, row.body) for row in self.connection.execute(query)]


def _named(owner: str, kind: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return documents.c.owner == owner, documents.c.kind == kind, documents.c.name == name
