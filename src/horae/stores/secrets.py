"""Sealed secrets, by tenant and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from horae.core.instants import instant, micros
from horae.ports import Sealed
from horae.stores.rows import at, to_micros
from horae.stores.tables import secrets


class Secrets:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, owner: str, name: str) -> Sealed | None:
        query = select(secrets).where(secrets.c.owner == owner, secrets.c.name == name)
        row = self.connection.execute(query).mappings().first()
        return None if row is None else _sealed(row)

    def put(self, owner: str, secret: Sealed) -> None:
        """Replace it; the caller has read it in this transaction."""
        self.remove(owner, secret.name)
        row = {
            "owner": owner,
            "name": secret.name,
            "sealed": secret.text,
            "previous": secret.previous,
            "previous_until": to_micros(secret.previous_until),
            "created_at": micros(secret.created_at),
            "updated_at": micros(secret.updated_at),
        }
        self.connection.execute(insert(secrets), row)

    def names(self, owner: str) -> list[Sealed]:
        query = select(secrets).where(secrets.c.owner == owner).order_by(secrets.c.name)
        return [_sealed(row) for row in self.connection.execute(query).mappings()]

    def remove(self, owner: str, name: str) -> bool:
        mine = delete(secrets).where(secrets.c.owner == owner, secrets.c.name == name)
        return self.connection.execute(mine).rowcount == 1


def _sealed(row: Mapping[Any, Any]) -> Sealed:
    return Sealed(
        name=row["name"],
        text=row["sealed"],
        previous=row["previous"],
        previous_until=at(row["previous_until"]),
        created_at=instant(row["created_at"]),
        updated_at=instant(row["updated_at"]),
    )
