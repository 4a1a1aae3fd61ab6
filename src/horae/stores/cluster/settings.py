"""Copies of the house's settings in one database of a cluster: rows to values and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, select, update

from horae.core.cluster.settings import OWN, Head, Kind, Rank, SharedSetting
from horae.stores.databases.bulk import insert_free
from horae.stores.tables.cluster import SETTINGS, settings

FEW = 400  # names in one condition
Key = tuple[Kind, str]


class Settings:
    """The copies inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def heads(self) -> dict[Key, Head]:
        columns = settings.c
        rows = self.connection.execute(
            select(columns.kind, columns.name, columns.version, columns.decided_in, columns.applied).where(
                columns.kind != OWN
            )
        )
        return {(row.kind, row.name): Head(Rank(row.version, row.decided_in), row.applied) for row in rows}

    def find(self, keys: Collection[Key]) -> list[SharedSetting]:
        kinds: dict[Kind, list[str]] = {}
        for kind, name in sorted(keys):
            kinds.setdefault(kind, []).append(name)
        return [each for kind, names in kinds.items() for each in self._find(kind, names, lock=False)]

    def lock(self, kind: Kind, names: Collection[str]) -> dict[str, SharedSetting]:
        """A setting that is new here gets a row without a version first: there is nothing else to lock."""
        wanted = sorted(set(names))
        blank = [SETTINGS.row(SharedSetting(kind, name, 0, 0, {})) for name in wanted]
        insert_free(self.connection, settings, blank)
        return {each.name: each for each in self._find(kind, wanted, lock=True)}

    def put(self, *given: SharedSetting) -> None:
        for each in given:
            same = (settings.c.kind == each.kind, settings.c.name == each.name)
            self.connection.execute(update(settings).where(*same).values(SETTINGS.row(each)))

    def _find(self, kind: Kind, names: list[str], *, lock: bool) -> Iterator[SharedSetting]:
        for start in range(0, len(names), FEW):
            some = settings.c.name.in_(names[start : start + FEW])
            query = select(*SETTINGS.select).where(settings.c.kind == kind, some).order_by(settings.c.name)
            for row in self.connection.execute(query.with_for_update() if lock else query):
                yield SETTINGS.read(row)
