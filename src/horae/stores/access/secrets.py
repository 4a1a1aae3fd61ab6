"""Sealed secrets, by tenant and name."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from horae.ports.access import Sealed
from horae.stores.tables.access import SECRETS, secrets


class Secrets:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, owner: str, name: str) -> Sealed | None:
        query = select(*SECRETS.select).where(secrets.c.owner == owner, secrets.c.name == name)
        row = self.connection.execute(query).first()
        return None if row is None else SECRETS.read(row)

    def put(self, owner: str, secret: Sealed) -> None:
        """Replace it; the caller has read it in this transaction."""
        self.remove(owner, secret.name)
        self.connection.execute(insert(secrets), {"owner": owner, **SECRETS.row(secret)})

    def names(self, owner: str) -> list[Sealed]:
        query = select(*SECRETS.select).where(secrets.c.owner == owner).order_by(secrets.c.name)
        return [SECRETS.read(row) for row in self.connection.execute(query)]

    def remove(self, owner: str, name: str) -> bool:
        statement = delete(secrets).where(secrets.c.owner == owner, secrets.c.name == name)
        return self.connection.execute(statement).rowcount == 1
