"""Join a transaction of the caller's: on SQLAlchemy, on Django, or on a plain connection of one of our drivers.

Horae's statements are SQLAlchemy's. A connection that SQLAlchemy did not make is borrowed: statements go through it,
and what would end its transaction is left out, because only the caller may commit or roll back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.pool import StaticPool

from horae.errors import ConfigurationError, NotAllowed, SchemaMissing
from horae.stores.schema import HEAD

DRIVERS = {"sqlite3": "sqlite", "psycopg": "postgresql", "pymysql": "mysql"}  # by module: the database behind it
SAME = {"mariadb": "mysql"}
IDLE, IN_TRANSACTION = 0, 1  # what psycopg and MariaDB call it


@contextmanager
def joined(engine: Engine, connection: Any) -> Iterator[Connection | None]:
    """Lend a connection as SQLAlchemy knows it, in the caller's transaction; refuse one that cannot be joined."""
    if connection is None or hasattr(connection, "exec_driver_sql"):
        yield connection
    elif hasattr(connection, "settings_dict") and hasattr(connection, "ensure_connection"):
        with _of_django(connection) as raw, _borrowed(engine, raw) as lent:
            yield lent
    else:
        _refuse_autocommit(connection, _driver_of(connection))
        with _borrowed(engine, connection) as lent:
            yield lent


@contextmanager
def _of_django(connection: Any) -> Iterator[Any]:
    """Lend the driver's connection of Django, inside ``atomic``: in that of the caller, or one for these statements.

    A refusal of ours undoes no more than its own statements.
    """
    from django.db import transaction

    if connection.needs_rollback:
        raise NotAllowed("django_transaction_broken", alias=connection.alias)
    with transaction.atomic(using=connection.alias):
        connection.ensure_connection()
        yield connection.connection


@contextmanager
def _borrowed(engine: Engine, raw: Any) -> Iterator[Connection]:
    """Lend a driver's connection as one of SQLAlchemy's; nothing on it is committed, rolled back or closed."""
    driver, expected = _driver_of(raw), SAME.get(engine.dialect.name, engine.dialect.name)
    if DRIVERS[driver] != expected:
        raise ConfigurationError("connection_other_database", given=DRIVERS[driver], expected=expected)
    if driver == "sqlite3":
        _require_tables(raw)
    lent = _Lent(raw, CURSORS[driver])
    foreign = Engine(StaticPool(lambda: lent, reset_on_return=None), engine.dialect, engine.url)
    with foreign.connect() as connection:
        yield connection


def _require_tables(raw: Any) -> None:
    """Refuse a file without our tables: they cannot be made while the caller's transaction has it."""
    if raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'horae_jobs'").fetchone() is None:
        raise SchemaMissing("tables_old", found="no Horae tables", needed=HEAD)


def _driver_of(raw: Any) -> str:
    """Return the driver of a connection; refuse anything else in words."""
    kind = type(raw)
    for base in kind.__mro__:
        driver = base.__module__.partition(".")[0]
        if driver in DRIVERS and hasattr(raw, "cursor") and not base.__name__.startswith("Async"):
            return driver
    raise ConfigurationError("connection_unusable", given=f"{kind.__module__}.{kind.__qualname__}")


def _refuse_autocommit(raw: Any, driver: str) -> None:
    """Refuse a connection whose statements would each be committed at once: there is nothing to join."""
    if not OPENS_TRANSACTION[driver](raw):
        raise ConfigurationError("connection_in_autocommit", given=f"{driver} connection")


def _opens_sqlite(raw: Any) -> bool:
    commits_at_once = raw.isolation_level is None or getattr(raw, "autocommit", -1) is True
    return bool(raw.in_transaction) or not commits_at_once


def _opens_psycopg(raw: Any) -> bool:
    return not raw.autocommit or int(raw.info.transaction_status) != IDLE


def _opens_pymysql(raw: Any) -> bool:
    return not raw.get_autocommit() or bool(raw.server_status & IN_TRANSACTION)


def _plain_cursor(raw: Any) -> Any:
    return raw.cursor()


def _psycopg_cursor(raw: Any) -> Any:
    from psycopg.rows import tuple_row

    return raw.cursor(row_factory=tuple_row)


def _pymysql_cursor(raw: Any) -> Any:
    from pymysql.cursors import Cursor

    return raw.cursor(Cursor)


OPENS_TRANSACTION: dict[str, Callable[[Any], bool]] = {
    "sqlite3": _opens_sqlite, "psycopg": _opens_psycopg, "pymysql": _opens_pymysql
}  # fmt: skip
CURSORS: dict[str, Callable[[Any], Any]] = {
    "sqlite3": _plain_cursor, "psycopg": _psycopg_cursor, "pymysql": _pymysql_cursor
}  # fmt: skip


class _Lent:
    """A connection of the caller's, with rows as tuples, on which nothing ends the transaction."""

    def __init__(self, raw: Any, cursor: Callable[[Any], Any]) -> None:
        self._raw, self._cursor = raw, cursor

    def cursor(self, *_: Any, **__: Any) -> Any:
        return self._cursor(self._raw)

    def commit(self) -> None:
        """Leave the transaction open: it is the caller's."""

    def rollback(self) -> None:
        """Leave the transaction open: it is the caller's."""

    def close(self) -> None:
        """Leave the connection open: it is the caller's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)
