"""Tenants: one row each, behind which their quotas are counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, text, update

from horae.core.time.instants import micros
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.access import owners


class Owners:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def lock(self, owner: str, now: datetime) -> Mapping[str, Any]:
        """Lock a tenant, so that no other transaction checks its quotas until this one ends; return its settings."""
        query = select(owners.c.settings).where(owners.c.owner == owner).with_for_update()
        found = self.connection.execute(query).scalar()
        if found is None:  # looking first: to insert what is there takes a weaker lock, and two such holders deadlock
            self._make(owner, now)
            found = self.connection.execute(query).scalar_one()
        return dict(json.loads(found))

    def settings(self, owner: str) -> Mapping[str, Any]:
        found = self.connection.execute(select(owners.c.settings).where(owners.c.owner == owner)).scalar()
        return {} if found is None else dict(json.loads(found))

    def put(self, owner: str, settings: Mapping[str, Any], now: datetime) -> None:
        self._make(owner, now)
        encoded = json.dumps(dict(settings), ensure_ascii=False)
        statement = update(owners).where(owners.c.owner == owner)
        weight = int(settings.get("weight", 1))  # in a column of its own, for claims
        self.connection.execute(statement.values(settings=encoded, updated_at=micros(now), weight=weight))

    def all(self, *, limit: int, after: str | None) -> list[str]:
        query = select(owners.c.owner).order_by(owners.c.owner).limit(limit)
        query = query if after is None else query.where(owners.c.owner > after)
        return list(self.connection.execute(query).scalars())

    def _make(self, owner: str, now: datetime) -> None:
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        sql = f"{before} {owners.name} (owner, settings, created_at, updated_at) VALUES (:owner, '{{}}', :at, :at)"
        self.connection.execute(text(f"{sql} {behind}"), {"owner": owner, "at": micros(now)})
