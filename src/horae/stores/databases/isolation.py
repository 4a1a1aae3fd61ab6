"""Row level security on PostgreSQL, for those who want a second wall: without a tenant set, a session sees nothing.

Our own connections say ``*``, because workers serve every tenant; the first wall stands in the verbs. What is kept out
is everything else that comes with the application's role: a forgotten script, a report, an injected statement.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, Table, event, text

from horae.errors import ConfigurationError
from horae.stores.databases.dialects import POSTGRES
from horae.stores.partitions import Partitions
from horae.stores.schema import lift_timeouts

SETTING = "horae.owner"
POLICY = "horae_owner"
EVERYBODY = f"current_setting('{SETTING}', true) = '*'"
FIRST = "horae_jobs"  # a table that every version has: behind the wall where it is raised


def act_for_all_tenants(engine: Engine) -> None:
    """Let every connection of an engine say that it acts for all tenants."""

    @event.listens_for(engine, "connect")
    def set_tenant(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET {SETTING} = '*'")
        connection.commit()


def isolate(engine: Engine, *, on: bool = True) -> list[str]:
    """Raise the wall, or take it down; the tables concerned. Needs the role that owns them."""
    if engine.dialect.name != POSTGRES.name:
        raise ConfigurationError("row_security_unsupported")
    from horae.stores.metadata import metadata  # every table; only here, because every connection imports this module

    tables = metadata.sorted_tables
    with engine.begin() as connection, lift_timeouts(connection):
        for table in tables:
            for name in (table.name, *_partitions(connection, table.name)):
                _wall(connection, name, _rule(table) if on else None)
    return [table.name for table in tables]


def isolate_new(connection: Connection) -> None:
    """Put tables that a migration has just made behind the wall, where an operator has raised it."""
    if connection.dialect.name != POSTGRES.name:
        return
    from horae.stores.metadata import metadata

    query = text(
        "SELECT relname, relrowsecurity FROM pg_class WHERE oid = to_regclass(relname) AND relname = ANY(:names)"
    )
    walled = {row.relname: row.relrowsecurity for row in connection.execute(query, {"names": list(metadata.tables)})}
    if walled.get(FIRST):
        for table in metadata.sorted_tables:
            if not walled.get(table.name, True):
                _wall(connection, table.name, _rule(table))


def _rule(table: Table) -> str:
    own_rows = f" OR owner = current_setting('{SETTING}', true)" if "owner" in table.c else ""
    return f"({EVERYBODY}{own_rows})"


def _partitions(connection: Connection, table: str) -> list[str]:
    """Return the partitions of a table: a session that names one of them goes past the wall of the whole."""
    return [f"{table}_{partition.name}" for partition in Partitions(connection).all(table)]


def _wall(connection: Connection, table: str, rule: str | None) -> None:
    connection.execute(text(f"DROP POLICY IF EXISTS {POLICY} ON {table}"))
    for word in ("NO FORCE", "DISABLE") if rule is None else ("ENABLE", "FORCE"):
        connection.execute(text(f"ALTER TABLE {table} {word} ROW LEVEL SECURITY"))
    if rule is not None:
        connection.execute(text(f"CREATE POLICY {POLICY} ON {table} USING {rule} WITH CHECK {rule}"))
