"""The durability of an acknowledged commit, read from the database's own settings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Literal

from sqlalchemy import Connection, text

from horae.core.dataclass import dataclass
from horae.stores.databases.dialects import BY_NAME

Promise = Literal["durable", "crash-safe", "unsafe"]
# A write at the wrong moment of a checkpoint could lose pages; fixed in both of these lines.
WAL_RESET_FIXED = ((3, 51, 3), (3, 53, 0))


@dataclass(frozen=True, slots=True)
class Durability:
    """One class, and what may be lost after "stored" was answered."""

    product: str
    promise: Promise
    may_lose: str
    mend: str | None = None


def has_wal_reset_bug(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    first, second = WAL_RESET_FIXED
    return not (first <= version < (3, 52, 0) or version >= second)


def durability(connection: Connection) -> Durability:
    """Ask the database that this connection leads to."""
    return ASK[BY_NAME[connection.dialect.name].name](lambda sql: connection.execute(text(sql)).scalar())


Ask = Callable[[str], Any]
SYNCHRONOUS = ("on", "remote_apply")  # a commit waits until a standby has flushed it
GALERA = "SELECT variable_value FROM information_schema.global_variables WHERE variable_name = 'WSREP_ON'"


def _sqlite(ask: Ask) -> Durability:
    product = f"SQLite {ask('SELECT sqlite_version()')}, {ask('PRAGMA journal_mode')} journal"
    level = int(ask("PRAGMA synchronous"))
    if level >= 2:
        return Durability(product, "durable", "on one machine; nothing short of the disk is lost")
    if level == 1:
        return Durability(
            product, "crash-safe", "a power cut may take the last commits back", "unset HORAE_SYNCHRONOUS"
        )
    return Durability(product, "unsafe", "a power cut may damage the file", "unset HORAE_SYNCHRONOUS")


def _postgres(ask: Ask) -> Durability:
    product = f"PostgreSQL {str(ask('SHOW server_version')).split()[0]}"
    if ask("SELECT pg_is_in_recovery()"):
        return Durability(
            product, "unsafe", "it is a standby and cannot be written to", "horae doctor --db postgresql://<primary>/…"
        )
    if ask("SHOW fsync") == "off":
        return Durability(
            product, "unsafe", "a crash may damage everything", "psql -c 'ALTER SYSTEM SET fsync = on' and restart it"
        )
    if ask("SHOW synchronous_commit") == "off":
        return Durability(
            product,
            "crash-safe",
            "a crash may take the last commits back",
            "psql -c 'ALTER SYSTEM SET synchronous_commit = on' -c 'SELECT pg_reload_conf()'",
        )
    if ask("SHOW synchronous_commit") in SYNCHRONOUS and ask("SHOW synchronous_standby_names"):
        return Durability(product, "durable", "neither a restart nor a failover to a synchronous standby loses any")
    return Durability(product, "durable", "an asynchronous failover may lose the last commits, a restart none")


def _mysql(ask: Ask) -> Durability:
    version = str(ask("SELECT version()"))
    maria = "maria" in version.lower()
    product = f"MariaDB {version.split('-')[0]}" if maria else f"MySQL {version}"
    if int(ask("SELECT @@innodb_flush_log_at_trx_commit")) != 1:
        return Durability(
            product,
            "crash-safe",
            "a crash may take the last commits back",
            "mariadb -e 'SET GLOBAL innodb_flush_log_at_trx_commit = 1'",
        )
    if maria and ask(GALERA) == "ON":
        return Durability(
            f"{product}, Galera", "durable", "neither a restart nor the failover to another node loses any"
        )
    return Durability(product, "durable", "a failover may lose the last commits, a restart none")


ASK: dict[str, Callable[[Ask], Durability]] = {"sqlite": _sqlite, "postgresql": _postgres, "mysql": _mysql}
