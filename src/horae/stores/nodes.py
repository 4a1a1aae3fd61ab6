"""The processes that take part; for people to see, never for deciding who holds what."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from horae.core.instants import micros
from horae.ports import Node
from horae.stores.rows import node_from, node_row
from horae.stores.tables import nodes


class Nodes:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def all(self) -> list[Node]:
        return [node_from(row) for row in self.connection.execute(select(nodes).order_by(nodes.c.id)).mappings()]

    def put(self, node: Node) -> None:
        self.remove(node.node_id)
        self.connection.execute(insert(nodes), node_row(node))

    def remove(self, node_id: str) -> None:
        self.connection.execute(delete(nodes).where(nodes.c.id == node_id))

    def forget_silent(self, before: datetime) -> int:
        return self.connection.execute(delete(nodes).where(nodes.c.seen_at < micros(before))).rowcount
