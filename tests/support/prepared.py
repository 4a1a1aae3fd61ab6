"""Databases that have their tables already, for tests that are not about making them.

Making the tables costs a server and the test most of a second, taking the rows away a twentieth of one. So a test gets
a database that another one has used and that is empty again. A database whose shape a test has changed is not used
again. A folder chooses this in its conftest.py, by importing the three fixtures of this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.exc import DBAPIError

from horae.stores.databases import audit_guard
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
from horae.stores.tables.audit import audit
from tests.support.servers import MariaDBServer, PostgresServer
from tests.support.templates import put_tables

# What a test could leave besides rows: a table, a partition, an index, a trigger.
SHAPES = {
    "postgresql": "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
    "UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
    "mysql": "SELECT concat(table_name, coalesce(partition_name, '')) FROM information_schema.partitions "
    "WHERE table_schema = database() UNION ALL SELECT concat(table_name, index_name, seq_in_index) "
    "FROM information_schema.statistics WHERE table_schema = database() UNION ALL "
    "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = database() ORDER BY 1",
}
# The statements that make numbering begin at one again, as in a database that was just made; few tables have numbered.
RENUMBER = {
    "postgresql": "SELECT 'ALTER SEQUENCE ' || quote_ident(sequencename) || ' RESTART' FROM pg_sequences "
    "WHERE last_value IS NOT NULL",
    "mysql": "SELECT concat('ALTER TABLE ', table_name, ' AUTO_INCREMENT = 1') FROM information_schema.tables "
    "WHERE table_schema = database() AND auto_increment > 1",
}


# Whoever a test has left connected, but for the connection that asks.
OTHERS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}
END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}
GONE = 1094  # what MariaDB says of a connection that has left by itself
CHILDREN_FIRST = tuple(reversed(metadata.sorted_tables))
WHICH_HAVE_ROWS = text("SELECT " + ", ".join(f"EXISTS (SELECT 1 FROM {table.name})" for table in CHILDREN_FIRST))


def delete_rows(connection: Connection, *, but: Collection[Table] = ()) -> None:
    """Take all rows away, but for those of some tables."""
    answer = connection.execute(WHICH_HAVE_ROWS).one()
    filled = [table for table, has_rows in zip(CHILDREN_FIRST, answer, strict=True) if has_rows and table not in but]
    with _unguarded(connection) if audit in filled else nullcontext():
        for table in filled:
            connection.execute(table.delete())


@contextmanager
def _unguarded(connection: Connection) -> Iterator[None]:
    """Let entries of the audit be deleted."""
    if connection.dialect.name == "postgresql":  # the guard need not be made anew
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        yield
        connection.execute(text("SET LOCAL session_replication_role = DEFAULT"))
    else:
        audit_guard.remove(connection)
        yield
        audit_guard.install(connection)


@dataclass
class Prepared:
    """The databases of one server that have their tables and no rows.

    Each has a connection that empties it again and again: on PostgreSQL a new one took eight times as long.
    """

    server: PostgresServer | MariaDBServer
    template: str = ""
    shape: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    engines: dict[str, Engine] = field(default_factory=dict)

    @contextmanager
    def lend(self) -> Iterator[str]:
        url = self.ready.pop() if self.ready else self._make()
        yield url
        if self._is_as_made(url):
            self.ready.append(url)
        else:
            self.engines.pop(url).dispose()
            self.server.drop_database(url)

    def empty(self, url: str) -> None:
        """Take all rows away."""
        with self.engines[url].begin() as connection:
            delete_rows(connection)

    def copy(self) -> str:
        """Return the URL of a new database that has its tables; copying one costs a tenth of making them."""
        if not isinstance(self.server, PostgresServer):
            return self._make_tables(self.server.create_database())
        self.template = self.template or self._make_tables(self.server.create_database())
        return self.server.copy_database(self.template)

    def _make(self) -> str:
        url = self.copy()
        engine = self.engines[url] = create_store_engine(url)
        with engine.connect() as connection:
            self.shape = self.shape or self._shape_of(connection)
        return url

    def _make_tables(self, url: str) -> str:
        engine = create_store_engine(url)
        migrate(engine)
        engine.dispose()
        return url

    def _is_as_made(self, url: str) -> bool:
        """End other connections and take all rows away; answers whether the database is then as one just made."""
        with self.engines[url].begin() as connection:
            self._disconnect_others(connection)
            if self._shape_of(connection) != self.shape:
                return False
            delete_rows(connection)
            for statement in list(connection.execute(text(RENUMBER[connection.dialect.name])).scalars()):
                connection.execute(text(statement))
        return True

    def _disconnect_others(self, connection: Connection) -> None:
        name = connection.dialect.name
        for other in list(connection.execute(text(OTHERS[name])).scalars()):
            try:
                connection.exec_driver_sql(END[name].format(int(other)))
            except DBAPIError as problem:
                if GONE not in getattr(problem.orig, "args", ()):
                    raise

    def _shape_of(self, connection: Connection) -> list[str]:
        return list(connection.execute(text(SHAPES[connection.dialect.name])).scalars())


@pytest.fixture
def sqlite_database_url(tmp_path: Path) -> str:
    return put_tables(tmp_path / "horae.db")


@pytest.fixture
def postgres_database_url(prepared_postgres: Prepared) -> Iterator[str]:
    with prepared_postgres.lend() as url:
        yield url


@pytest.fixture
def mysql_database_url(prepared_mysql: Prepared) -> Iterator[str]:
    with prepared_mysql.lend() as url:
        yield url
