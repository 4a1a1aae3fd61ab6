"""Row level security on PostgreSQL, for those who want a second wall: without a tenant set, a session sees nothing.

Our own connections say ``*``, because workers serve every tenant; the first wall stands in the verbs. What is kept out
is everything else that comes with the application's role: a forgotten script, a report, an injected statement.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event, text

from horae.errors import ConfigurationError
from horae.stores.databases.dialects import POSTGRES
from horae.stores.schema import lift_timeouts
from horae.stores.tables import metadata

SETTING = "horae.owner"
POLICY = "horae_owner"
EVERYBODY = f"current_setting('{SETTING}', true) = '*'"


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
    tables = metadata.sorted_tables
    with engine.begin() as connection, lift_timeouts(connection):
        for table in tables:
            connection.execute(text(f"DROP POLICY IF EXISTS {POLICY} ON {table.name}"))
            if not on:
                for word in ("NO FORCE", "DISABLE"):
                    connection.execute(text(f"ALTER TABLE {table.name} {word} ROW LEVEL SECURITY"))
                continue
            own_rows = f" OR owner = current_setting('{SETTING}', true)" if "owner" in table.c else ""
            connection.execute(text(f"ALTER TABLE {table.name} ENABLE ROW LEVEL SECURITY"))
            connection.execute(text(f"ALTER TABLE {table.name} FORCE ROW LEVEL SECURITY"))
            rule = f"({EVERYBODY}{own_rows})"
            connection.execute(text(f"CREATE POLICY {POLICY} ON {table.name} USING {rule} WITH CHECK {rule}"))
    return [table.name for table in tables]
