"""The version of the tables: check it, bring it up to date, refuse what is newer than this code.

Migrations run under a lock, so that any number of processes may start at once. The version table is
``horae_version``, so that Alembic inside an application never meets ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.pool import StaticPool

from horae.core.dataclass import dataclass
from horae.errors import SchemaMissing, SchemaTooNew, StoreBusy, StoreFull, StoreUnavailable
from horae.stores.databases import audit_guard
from horae.stores.databases.dialects import BY_NAME, NO_ROOM
from horae.stores.revisions import HEAD, KNOWN, VERSION_TABLE, is_served, oldest_code, set_oldest

__all__ = [
    "HEAD",
    "KNOWN",
    "LOCK",
    "REMOVED",
    "SCRIPTS",
    "VERSION_TABLE",
    "Schema",
    "create_all",
    "inspect_schema",
    "lift_timeouts",
    "lock_migrations",
    "migrate",
    "require_current",
    "require_served",
    "translate_errors",
    "upgrade",
]

log = logging.getLogger("horae.schema")
LOCK = 4_715_113_082  # the advisory lock of migrations: an arbitrary number that no other program should use
MAX_TRIES = 5  # of an upgrade that deadlocks with other work, after which the database has rolled it back as a whole
DEADLOCK = "40P01"  # as PostgreSQL calls it; where DDL has no transaction, nothing is held from step to step
SCRIPTS = Path(__file__).parent / "migrations"
# Versions from before the baseline, which took their place: nothing here can migrate them.
REMOVED = frozenset(f"{number:04}" for number in range(1, 21))


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema version of a database, and the one that this code needs."""

    found: str | None
    wanted: str = HEAD
    is_near: bool = False  # of a cluster's database: not the version of this code, and served all the same

    @property
    def is_current(self) -> bool:
        return self.found == self.wanted

    @property
    def is_newer(self) -> bool:
        return self.found is not None and self.found not in KNOWN


def inspect_schema(engine: Engine) -> Schema:
    """Return which version the tables have; None where there are none.

    One that is not known here is refused, unless a database of a cluster says that this code may go on with it.
    """
    with translate_errors(), engine.connect().execution_options(horae_reading=True) as connection:
        found = _version(connection)  # reading: an app may be opened first inside its own write transaction
        near = found is not None and found != HEAD and found not in REMOVED and is_served(connection, found)
    if found in REMOVED:
        raise SchemaMissing("tables_too_old", version=found, oldest=KNOWN[0])
    if found is not None and found not in KNOWN and not near:
        raise SchemaTooNew("tables_too_new", version=found, known=HEAD)
    return Schema(found, is_near=near)


def require_current(engine: Engine) -> None:
    """Refuse to work with missing or old tables."""
    _require(inspect_schema(engine), or_near=False)


def require_served(engine: Engine) -> None:
    """Refuse to work with missing or old tables; of a cluster's database the revisions nearby are served as well."""
    schema = inspect_schema(engine)
    _require(schema, or_near=True)
    if schema.is_near:
        log.warning(
            "%s has tables of version %s, this Horae %s: served meanwhile; end the upgrade (horae db migrate)",
            engine.url.render_as_string(hide_password=True), schema.found, schema.wanted,
        )  # fmt: skip


def _require(schema: Schema, *, or_near: bool) -> None:
    if schema.is_current or (or_near and schema.is_near):
        return
    if schema.is_newer:
        raise SchemaTooNew("tables_too_new", version=schema.found, known=HEAD)
    have = "no Horae tables" if schema.found is None else f"Horae tables of version {schema.found}"
    raise SchemaMissing("tables_old", found=have, needed=schema.wanted)


def migrate(engine: Engine) -> Schema:
    """Bring the tables up to date; safe when several processes do so at once. Answers with what was found before.

    An upgrade that the database ended because it deadlocked with other work is tried again.

    Parts of the audit's guard that an earlier role might not create are made too, where this one may. New tables are
    isolated where the others are.
    """
    before = inspect_schema(engine)
    if before.is_newer or (before.is_current and _is_guarded(engine)):
        return before
    with translate_errors():
        for tries_left in range(MAX_TRIES - 1, -1, -1):
            try:
                _bring_up_to_date(engine)
                break
            except OperationalError as problem:
                if not tries_left or getattr(problem.orig, "sqlstate", None) != DEADLOCK:
                    raise
    return before


def _bring_up_to_date(engine: Engine) -> None:
    with lock_migrations(engine) as connection:
        if BY_NAME[connection.dialect.name].name == "sqlite" and _is_new(connection):
            _make_sqlite(connection)  # without Alembic, which takes three times as long
        elif _version(connection) != HEAD:
            from horae.stores.databases import isolation  # which imports this module, and much that few commands need

            upgrade(connection)
            isolation.isolate_new(connection)
        audit_guard.install(connection)


def _is_guarded(engine: Engine) -> bool:
    with translate_errors(), engine.connect().execution_options(horae_reading=True) as connection:
        return not audit_guard.missing(connection)


def create_all(engine: Engine) -> None:
    """Create the current tables at once, as in a database in memory, which is never migrated."""
    with engine.begin() as connection:
        if _version(connection) is not None:
            return
        if BY_NAME[connection.dialect.name].name == "sqlite":
            _make_sqlite(connection)
        else:
            _create_tables(connection)
            _set_version(connection)


def _is_new(connection: Connection) -> bool:
    """Whether no table of ours is there, not even one that a migration left which never ended."""
    return not any(name.startswith("horae_") for name in inspect(connection).get_table_names())


def _make_sqlite(connection: Connection) -> None:
    cursor = connection.connection.cursor()
    for statement in _sqlite_statements():
        cursor.execute(statement)
    _set_version(connection)


def _set_version(connection: Connection) -> None:
    given = {"head": HEAD, "oldest": oldest_code()}
    connection.execute(text(f"INSERT INTO {VERSION_TABLE} (version_num, oldest) VALUES (:head, :oldest)"), given)


def _create_tables(connection: Connection) -> None:
    from horae.stores.metadata import metadata
    from horae.stores.tables.audit import UNSEALED_INDEXES
    from horae.stores.tables.jobs import job_indexes

    metadata.create_all(connection)
    partial = BY_NAME[connection.dialect.name].partial_indexes
    for statement in (*job_indexes(partial).values(), *(UNSEALED_INDEXES if partial else ())):
        connection.execute(text(statement))
    audit_guard.install(connection)
    connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL, oldest VARCHAR(32))"))


@cache
def _sqlite_statements() -> tuple[str, ...]:
    """Return the statements that make all tables on SQLite, written once: that takes ten times as long as to run them.

    A test that opens ``sqlite://`` again and again would write them each time.
    """
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        _create_tables(connection)
        made = connection.execute(
            text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY rowid")
        )
        statements = tuple(str(statement) for (statement,) in made)
    engine.dispose()
    return statements


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def upgrade(connection: Connection) -> None:
    """Run the migrations that are missing, one after the other."""
    from alembic.config import Config
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    step: Callable[..., Any] = lambda revision, _context: scripts._upgrade_revs("head", revision)  # noqa: E731  # one line, used once below
    options = {"version_table": VERSION_TABLE, "fn": step, "transactional_ddl": False}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        context.run_migrations()
    set_oldest(connection)


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as problem:
        message = f"{problem.orig}".partition("\n\tIs the server running")[0].strip() or type(problem).__name__
        if "locked" in message:
            raise StoreBusy("database_locked", problem=message) from problem
        no_room = getattr(problem.orig, "sqlite_errorcode", None) in NO_ROOM
        if no_room or "is full" in message or "No space left" in message:
            raise StoreFull("database_no_room", problem=message) from problem
        raise StoreUnavailable("database_unreachable", problem=message) from problem


@contextmanager
def lock_migrations(engine: Engine) -> Iterator[Connection]:
    """Lock migrations for one connection; the transaction, where DDL has one, covers the whole upgrade."""
    name = BY_NAME[engine.dialect.name].name
    with engine.connect() as connection:
        if name == "postgresql":
            with connection.begin(), lift_timeouts(connection):
                connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
                yield connection
        elif name == "mysql":
            with lift_timeouts(connection):
                if connection.execute(text(f"SELECT GET_LOCK('{LOCK}', 600)")).scalar() != 1:
                    raise StoreBusy("migration_too_long")
                try:
                    yield connection
                    connection.commit()
                finally:
                    connection.execute(text(f"SELECT RELEASE_LOCK('{LOCK}')"))
        else:
            with connection.begin():  # BEGIN IMMEDIATE: the file itself is the lock
                yield connection


@contextmanager
def lift_timeouts(connection: Connection) -> Iterator[None]:
    """Lift all timeouts of a connection of Horae: a migration may have to wait for other sessions.

    On PostgreSQL the settings end with the transaction; on MariaDB the connection is closed afterwards.
    """
    driver: Any = connection.connection.driver_connection
    if not hasattr(driver, "limit"):  # an engine of the caller's own has the limits that the caller gave it
        yield
        return
    driver.limit = None
    dialect = BY_NAME[connection.dialect.name]
    for setting in dialect.no_limits:
        connection.exec_driver_sql(setting)
    try:
        yield
    finally:
        if not dialect.limits_end_with_transaction and not connection.closed and not connection.invalidated:
            connection.detach()  # closed for good when its block ends
