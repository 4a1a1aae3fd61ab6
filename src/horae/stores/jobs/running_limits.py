"""Limits of what runs at once: what each source says, and the effective table that claims read."""

from __future__ import annotations

from sqlalchemy import Connection, and_, delete, func, insert, select, text, update

from horae.core.jobs.running_limits import LimitSource
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import Driver
from horae.stores.jobs.slots import LOCK, Slots
from horae.stores.tables import LIMIT_SOURCES, limit_sources, limits, slots


class RunningLimits:
    """The rows of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._dialect = BY_NAME[connection.dialect.name]
        self._slots = Slots(self._dialect)

    def lock(self, name: str) -> None:
        """Let nobody else change this limit, or take a place under it, until the transaction ends."""
        self._slots.lock(self._driver(), [name])

    def sources(self, name: str | None = None, *, app: str | None = None) -> list[LimitSource]:
        """Return what is said about limits: about one, by one application, or everything."""
        query = select(*LIMIT_SOURCES.select).order_by(limit_sources.c.name, limit_sources.c.app)
        query = query.where(*LIMIT_SOURCES.equal({"name": name, "app": app}))
        return [LIMIT_SOURCES.read(row) for row in self.connection.execute(query)]

    def put_source(self, source: LimitSource) -> None:
        """Write what a source says; the name is locked."""
        self.remove_source(source.name, source.app)
        self.connection.execute(insert(limit_sources), LIMIT_SOURCES.row(source))

    def remove_source(self, name: str, app: str) -> None:
        self.connection.execute(
            delete(limit_sources).where(and_(limit_sources.c.name == name, limit_sources.c.app == app))
        )

    def apply(self, name: str, max_running: int | None) -> None:
        """Set or lift the limit that claims obey; it holds from the next claim on."""
        if max_running is None:
            self.connection.execute(delete(limits).where(limits.c.name == name))
        else:
            before, behind = self._dialect.insert_ignore
            row = {"name": name, "max_running": max_running}
            added = text(f"{before} horae_limits (name, max_running) VALUES (:name, :max_running) {behind}")
            self.connection.execute(added, row)
            self.connection.execute(update(limits).where(limits.c.name == name).values(max_running=max_running))
        self._slots.apply_limit(self._driver(), name)

    def running(self) -> dict[str, int]:
        """Return how many jobs run under each limit now; only places that a limit gave are counted."""
        query = select(slots.c.name, func.count()).where(slots.c.place != LOCK).group_by(slots.c.name)
        return {row[0]: int(row[1]) for row in self.connection.execute(query)}

    def _driver(self) -> Driver:
        return Driver(self.connection.connection.driver_connection, self._dialect.placeholder)
