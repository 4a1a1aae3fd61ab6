"""From a URL or an engine to a store, with its tables in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from horae.core.timeouts import Timeouts
from horae.errors import ConfigurationError, MissingExtra
from horae.stores.databases.dialects import BY_NAME, SQLITE
from horae.stores.store import SqlStore

DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql",
           "mariadb": "mariadb+pymysql"}  # fmt: skip
SEVERAL = re.compile(r"(\w[\w+]*://(?:[^@/?]*@)?)([^@/?]*,[^@/?]*)(.*)", re.DOTALL)
PLACE = re.compile(r"(?P<name>\[[^\]]+\]|[^:\[\]]+)(?::(?P<port>\d*))?")
EXTRAS = {"postgresql": "postgres", "mysql": "mysql"}


def read_url(url: str) -> URL:
    """Return the parts of a database URL, or a sentence about what is wrong with it that tells no password.

    Several hosts may stand in it as libpq writes them, ``//a:5432,b:5433/name``; SQLAlchemy wants ``?host=`` for each.
    """
    try:
        several = SEVERAL.match(url)
        parsed = _name_hosts(*several.groups()) if several else make_url(url)
    except (ArgumentError, ValueError):  # no URL at all; a port that is no number
        raise ConfigurationError("database_url_unreadable") from None
    if is_sqlite(parsed) and (parsed.host or parsed.username):
        raise ConfigurationError("sqlite_url_has_host")
    return parsed


def _name_hosts(head: str, hosts: str, rest: str) -> URL:
    """Name several hosts in the query, ``?host=a,b&port=5432,5433``; ports that are left out stay empty."""
    places = [PLACE.fullmatch(place) for place in hosts.split(",")]
    if not all(places):
        raise ValueError(hosts)
    names, ports = zip(*((place["name"].strip("[]"), place["port"] or "") for place in places if place), strict=True)
    given = {"host": ",".join(names)} | ({"port": ",".join(ports)} if any(ports) else {})
    return make_url(f"{head}{rest}").update_query_dict(given)


def sqlite_path(parsed: URL) -> Path | None:
    """Return the file behind a URL, where the database is a file."""
    is_file = parsed.database not in (None, "", ":memory:") and is_sqlite(parsed)
    return Path(str(parsed.database)) if is_file and not str(parsed.database).startswith("file:") else None


def is_sqlite(parsed: URL) -> bool:
    return BY_NAME.get(parsed.get_backend_name()) is SQLITE


def create_store_engine(url: str, synchronous: Any = "FULL", timeouts: Timeouts | None = None) -> Engine:
    """Make an engine set up as Horae needs it, with *timeouts* for a server's connections."""
    limits = timeouts or Timeouts()
    parsed = read_url(url)
    if "+" not in parsed.drivername and parsed.drivername in DRIVERS:
        parsed = parsed.set(drivername=DRIVERS[parsed.drivername])
    kind = parsed.get_backend_name()
    if kind not in BY_NAME:
        raise ConfigurationError("database_unsupported", kind=kind)
    text = parsed.render_as_string(hide_password=False)
    try:
        if parsed.get_dialect().is_async:
            raise ConfigurationError("database_driver_async", kind=kind, driver=parsed.drivername)
        if BY_NAME[kind].name == "sqlite":
            from horae.stores.databases.sqlite import create_sqlite_engine

            return create_sqlite_engine(text, synchronous)
        if BY_NAME[kind].name == "postgresql":
            from horae.stores.databases.postgres_connections import create_postgres_engine

            return create_postgres_engine(text, limits)
        from horae.stores.databases.mysql_connections import create_mysql_engine

        return create_mysql_engine(text, limits)
    except (ModuleNotFoundError, NoSuchModuleError) as problem:
        extra = EXTRAS.get(BY_NAME[kind].name, kind)
        raise MissingExtra("database_driver_missing", kind=kind, problem=str(problem), extra=extra) from problem


def store_on(engine: Engine, timeouts: Timeouts | None = None) -> SqlStore:
    """Return the store that fits an engine; nothing is read or written yet."""
    kind = BY_NAME[engine.dialect.name].name
    if kind == "sqlite":
        from horae.stores.databases.sqlite import SqliteStore

        return SqliteStore(engine, timeouts)
    if kind == "postgresql":
        from horae.stores.databases.postgres import PostgresStore

        return PostgresStore(engine, timeouts)
    from horae.stores.databases.mysql import MysqlStore

    return MysqlStore(engine, timeouts)


def open_store(engine: Engine, timeouts: Timeouts | None = None, *, owned: bool = True) -> SqlStore:
    """Return a store whose tables are there and current: made at once on SQLite, demanded elsewhere.

    An engine that is *owned* is disposed of with the store; one of the caller's own outlives it.
    """
    store = store_on(engine, timeouts)
    store.owns_engine = owned
    try:
        store.open_schema()
    except BaseException:
        store.close()  # or the connections of the check would stay open
        raise
    return store


def missing_limits(engine: Engine) -> list[str]:
    """Name the waits that an engine's connections do not bound; empty for engines of Horae and for SQLite."""
    kind = BY_NAME[engine.dialect.name].name
    if kind == "sqlite":
        return []
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        if hasattr(driver, "limit"):
            return []
        if kind == "postgresql":
            return ["a silent server"]  # no option of libpq bounds the wait behind a frozen proxy
        timeouts = {"reading": "_read_timeout", "writing": "_write_timeout"}
        return [word for word, name in timeouts.items() if getattr(driver, name, None) is None]
