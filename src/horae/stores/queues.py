"""Queue settings: pause, limit, order."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from horae.ports import Queue
from horae.stores.rows import queue_from, to_micros
from horae.stores.tables import queues


class Queues:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, name: str) -> Queue | None:
        row = self.connection.execute(select(queues).where(queues.c.name == name).with_for_update()).mappings().first()
        return None if row is None else queue_from(row)

    def all(self) -> list[Queue]:
        return [queue_from(row) for row in self.connection.execute(select(queues)).mappings()]

    def put(self, queue: Queue) -> None:
        """Replace the settings; the caller has read them in this transaction."""
        self.connection.execute(delete(queues).where(queues.c.name == queue.name))
        self.connection.execute(
            insert(queues),
            {
                "name": queue.name,
                "sorting": queue.order,
                "max_running": queue.max_running,
                "paused_at": to_micros(queue.paused_at),
                "paused_by": queue.paused_by,
                "pause_reason": queue.pause_reason,
            },
        )
