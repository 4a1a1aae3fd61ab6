"""Databases that have their tables already, for tests that are not about making them.

Making the tables costs a server and the test most of a second, taking the rows away a twentieth of one. So a test gets
a database that another one has used and that is empty again. A database whose shape a test has changed is not used
again. A folder chooses this in its conftest.py, by importing the three fixtures of this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text

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


def delete_rows(connection: Connection) -> None:
    guarded = connection.execute(select(audit.c.id).limit(1)).first() is not None
    if guarded:
        audit_guard.remove(connection)
    for table in reversed(metadata.sorted_tables):
        connection.execute(table.delete())
    if guarded:
        audit_guard.install(connection)


@dataclass
class Prepared:
    """The databases of one server that have their tables and no rows."""

    server: PostgresServer | MariaDBServer
    shape: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)

    @contextmanager
    def lend(self) -> Iterator[str]:
        url = self.ready.pop() if self.ready else self._make()
        yield url
        self.server.disconnect(url)
        if self._empty(url):
            self.ready.append(url)
        else:
            self.server.release_database(url)

    def _make(self) -> str:
        url = self.server.create_database()
        with closing(create_store_engine(url).connect()) as connection:
            migrate(connection.engine)
            self.shape = self.shape or self._shape_of(connection)
        connection.engine.dispose()
        return url

    def _empty(self, url: str) -> bool:
        """Take all rows away; answers whether the database is then as one that was just made."""
        engine = create_store_engine(url)
        try:
            with engine.begin() as connection:
                if self._shape_of(connection) != self.shape:
                    return False
                delete_rows(connection)
                for statement in list(connection.execute(text(RENUMBER[connection.dialect.name])).scalars()):
                    connection.execute(text(statement))
            return True
        finally:
            engine.dispose()

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
