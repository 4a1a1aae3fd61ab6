"""The processes that take part; for people to see, never for deciding who holds what."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from horae.core.time.instants import micros
from horae.ports.workers import Node
from horae.stores.tables.queues import NODES, nodes

LEFT = "left"  # no longer on the list; kept for a day, for the release of its last runs


class Nodes:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def all(self) -> list[Node]:
        query = select(*NODES.select).where(nodes.c.state != LEFT).order_by(nodes.c.id)
        return [NODES.read(row) for row in self.connection.execute(query)]

    def get(self, node_id: str, *, lock: bool = False) -> Node | None:
        query = select(*NODES.select).where(nodes.c.id == node_id, nodes.c.state != LEFT)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else NODES.read(row)

    def put(self, node: Node) -> None:
        self.connection.execute(delete(nodes).where(nodes.c.id == node.node_id))
        self.connection.execute(insert(nodes), NODES.row(node))

    def set_drain(self, node: Node) -> None:
        row = NODES.row(node)
        wish = {name: row[name] for name in ("drain", "drain_at", "drain_by", "drain_reason")}
        self.connection.execute(update(nodes).where(nodes.c.id == node.node_id).values(**wish))

    def remove(self, node_id: str) -> None:
        """Take a node off the list; its release stays known for a day, because its last runs are looked at later."""
        self.connection.execute(delete(nodes).where(nodes.c.id == node_id, nodes.c.app_release.is_(None)))
        self.connection.execute(update(nodes).where(nodes.c.id == node_id).values(state=LEFT))

    def releases(self, node_ids: Collection[str]) -> dict[str, str]:
        """Return the releases of these nodes, also of those that have left lately."""
        query = select(nodes.c.id, nodes.c.app_release).where(nodes.c.app_release.is_not(None))
        return {row[0]: row[1] for row in self.connection.execute(query) if row[0] in node_ids}

    def forget_silent(self, before: datetime) -> int:
        return self.connection.execute(delete(nodes).where(nodes.c.seen_at < micros(before))).rowcount
