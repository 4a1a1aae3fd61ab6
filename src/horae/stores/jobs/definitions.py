"""Definitions that the house's workers have stored: rows to values and back."""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, select, update

from horae.ports.definitions import StoredDefinition
from horae.stores.databases.bulk import insert_free
from horae.stores.databases.dialects import BY_NAME, Dialect
from horae.stores.databases.driver import Driver
from horae.stores.jobs.admission import Admission
from horae.stores.jobs.slots import Slots
from horae.stores.tables.access import DEFINITIONS, definitions


class Definitions:
    """The definitions inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, name: str) -> StoredDefinition | None:
        row = self.connection.execute(select(*DEFINITIONS.select).where(definitions.c.name == name)).first()
        return None if row is None else DEFINITIONS.read(row)

    def all(self) -> list[StoredDefinition]:
        rows = self.connection.execute(select(*DEFINITIONS.select).order_by(definitions.c.name))
        return [DEFINITIONS.read(row) for row in rows]

    def sensitive(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        wanted = (definitions.c.sensitive_names.is_not(None), definitions.c.name.in_(sorted(names)))
        rows = self.connection.execute(select(definitions.c.name, definitions.c.sensitive_names).where(*wanted))
        return {name: names for name, words in rows if (names := tuple(json.loads(words)))}

    def lock(self) -> None:
        """Lock the definitions: no claim may hold jobs, and no other transaction change one, until this one ends."""
        self._admission.lock(self._driver)

    def put(self, *changed: StoredDefinition) -> None:
        """Store definitions; the caller holds the lock."""
        rows = [DEFINITIONS.row(each) for each in changed]
        if insert_free(self.connection, definitions, rows) == len(rows):
            return
        for row in rows:
            self.connection.execute(update(definitions).where(definitions.c.name == row["name"]).values(row))

    def release(self, limit: int) -> tuple[int, set[str]]:
        """Let up to *limit* held jobs of open handlers back into the claim; how many, in which queues."""
        return self._admission.release(self._driver, limit)

    @property
    def _dialect(self) -> Dialect:
        return BY_NAME[self.connection.dialect.name]

    @property
    def _driver(self) -> Driver:
        return Driver(self.connection.connection.driver_connection, self._dialect.placeholder)

    @property
    def _admission(self) -> Admission:
        return Admission(self._dialect, Slots(self._dialect))
