"""The processes that take part; for people to see, never for deciding who holds what."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from horae.core.time.instants import micros
from horae.ports import Node
from horae.stores.tables.queues import NODES, nodes


class Nodes:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def all(self) -> list[Node]:
        return [NODES.read(row) for row in self.connection.execute(select(*NODES.select).order_by(nodes.c.id))]

    def put(self, node: Node) -> None:
        self.remove(node.node_id)
        self.connection.execute(insert(nodes), NODES.row(node))

    def remove(self, node_id: str) -> None:
        self.connection.execute(delete(nodes).where(nodes.c.id == node_id))

    def forget_silent(self, before: datetime) -> int:
        return self.connection.execute(delete(nodes).where(nodes.c.seen_at < micros(before))).rowcount
