"""Audit entries, appended in the transaction that they describe."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from horae.core.audit import Entry
from horae.stores.rows import entry_from, entry_row
from horae.stores.tables import audit


class Audit:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def append(self, entry: Entry) -> None:
        self.connection.execute(insert(audit), entry_row(entry))

    def find(
        self,
        *,
        object_id: str | None,
        limit: int,
        before: int | None,
        owner: str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        object_type: str | None = None,
    ) -> list[tuple[int, Entry]]:
        """Newest first, a page at a time; with *owner*, only that tenant's."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        equal = {
            audit.c.object_id: object_id,
            audit.c.owner: owner,
            audit.c.actor: actor,
            audit.c.verb: verb,
            audit.c.object_type: object_type,
        }
        query = query.where(*(column == value for column, value in equal.items() if value is not None))
        if before is not None:
            query = query.where(audit.c.id < before)
        return [(row["id"], entry_from(row)) for row in self.connection.execute(query).mappings()]
