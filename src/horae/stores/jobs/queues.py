"""Queue settings: pause, limit, order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, text, update

from horae.ports.queues import OwnerHours, Queue
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.queues import OWNER_HOURS, QUEUES, limits, queues, quiet_owners


class Queues:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, name: str, *, lock: bool = False) -> Queue | None:
        query = select(*QUEUES.select).where(queues.c.name == name)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        limit = self.limits().get(f"queue:{name}")
        if row is None:
            return None if limit is None else Queue(name, max_running=limit)
        return replace(QUEUES.read(row), max_running=limit)

    def all(self) -> list[Queue]:
        limited = {
            name.removeprefix("queue:"): limit for name, limit in self.limits().items() if name.startswith("queue:")
        }
        known = {row.name: QUEUES.read(row) for row in self.connection.execute(select(*QUEUES.select))}
        named = {name: known.get(name, Queue(name)) for name in {*known, *limited}}
        return [replace(queue, max_running=limited.get(name)) for name, queue in named.items()]

    def limits(self) -> dict[str, int]:
        """Return every limit: "queue:…", "group:…", "global"."""
        rows = self.connection.execute(select(limits.c.name, limits.c.max_running))
        return {row.name: row.max_running for row in rows}

    def put(self, queue: Queue) -> None:
        """Replace the settings, but for the limit, which has sources of its own; the caller has read them in this
        transaction.
        """
        self._upsert(queues, QUEUES.row(queue))

    def _upsert(self, table: Table, row: dict[str, Any]) -> None:
        """Insert or update; of two who set up the same queue at once, the later wins and neither fails."""
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        values = ", ".join(f":{name}" for name in row)
        self.connection.execute(text(f"{before} {table.name} ({', '.join(row)}) VALUES ({values}) {behind}"), row)
        self.connection.execute(update(table).where(table.c.name == row["name"]).values(row))


class OwnerHoursTable:
    """Quiet hours of owners."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, owner: str, *, lock: bool = False) -> OwnerHours | None:
        query = select(*OWNER_HOURS.select).where(quiet_owners.c.owner == owner)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else OWNER_HOURS.read(row)

    def all(self) -> list[OwnerHours]:
        query = select(*OWNER_HOURS.select).order_by(quiet_owners.c.owner)
        return [OWNER_HOURS.read(row) for row in self.connection.execute(query)]

    def put(self, hours: OwnerHours) -> None:
        row = OWNER_HOURS.row(hours)
        changed = update(quiet_owners).where(quiet_owners.c.owner == hours.owner).values(row)
        if self.connection.execute(changed).rowcount == 0 and self.get(hours.owner) is None:
            self.connection.execute(insert(quiet_owners).values(row))

    def remove(self, owner: str) -> None:
        self.connection.execute(delete(quiet_owners).where(quiet_owners.c.owner == owner))
