"""The database itself refuses to change, delete or truncate audit entries, and goes on where a role may not say so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import DBAPIError

from horae.actions.audit import export_audit, missing_guards, seal_all, verify_audit
from horae.actions.jobs.queues import pause_queue
from horae.core.audit.guard import describe_missing
from horae.doctor.database import audit_guard as examine_guard
from horae.doctor.findings import Installation
from horae.ports.world import World
from horae.settings import Settings
from horae.stores.databases import audit_guard
from horae.stores.databases.audit_guard import INVISIBLE, install, kept_columns, missing, remove
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine, open_store
from horae.stores.schema import create_all, inspect_schema, migrate
from horae.stores.tables.audit import audit
from horae.testing.clock import NOON, LoadedDice, VirtualClock
from tests.support.kinds import name_in
from tests.support.servers import MariaDBServer, PostgresServer

REFUSED = "append-only"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_store_engine(database_url)
    yield engine
    engine.dispose()


def world_on(engine: Engine) -> World:
    return World(open_store(engine, owned=False), VirtualClock(NOON), LoadedDice())


def a_history(engine: Engine) -> World:
    """Three sealed entries, and one that is not sealed yet."""
    world = world_on(engine)
    for name in ("mail", "reports", "archive"):
        pause_queue(world, name, actor="ann", reason="moving")
    seal_all(world)
    pause_queue(world, "late", actor="ann")
    return world


@pytest.fixture
def world(engine: Engine) -> World:
    migrate(engine)
    return a_history(engine)


def refused(engine: Engine, sql: str) -> bool:
    """Whether the database refuses a statement, and says why."""
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(sql)
    except DBAPIError as problem:
        return REFUSED in str(problem) or "foreign key" in str(problem).lower()
    return False


def contents(world: World) -> list[dict[str, Any]]:
    return [line for line in export_audit(world) if "hash" in line]


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["chain_seq = 1", "chain_seq IS NULL"], ids=["sealed", "unsealed"])
def test_no_column_of_an_entry_can_be_changed(world: World, engine: Engine, where: str) -> None:
    values = {"id": "id + 100", "at": "at + 1"} | dict.fromkeys(("state_before", "state_after", "evidence"), "'[1]'")
    changes = {each.name: values.get(each.name, "'other'") for each in kept_columns()}
    before = contents(world)

    refusals = {
        name: refused(engine, f"UPDATE horae_audit SET {name} = {value} WHERE {where}")
        for name, value in changes.items()
    }

    assert refusals == dict.fromkeys(changes, True)
    assert contents(world) == before


def test_the_guard_names_every_column_but_the_two_that_seal() -> None:
    assert {each.name for each in kept_columns()} == {each.name for each in audit.columns} - {"chain_seq", "hash"}


def test_a_seal_is_written_once(world: World, engine: Engine) -> None:
    for change in ("hash = 'x'", "chain_seq = 9", "chain_seq = NULL, hash = NULL"):
        assert refused(engine, f"UPDATE horae_audit SET {change} WHERE chain_seq = 1")

    assert seal_all(world) == 1
    assert [each.complaints for each in verify_audit(world)] == [()]


def test_a_space_at_the_end_is_a_change(world: World, engine: Engine) -> None:
    """MariaDB compares text without the spaces behind it."""
    assert refused(engine, "UPDATE horae_audit SET actor = 'ann ' WHERE chain_seq IS NULL")


def test_nothing_is_deleted_replaced_or_truncated(world: World, engine: Engine) -> None:
    columns = ", ".join(each.name for each in audit.columns)
    forged = ", ".join("'bob'" if each.name == "actor" else each.name for each in audit.columns)
    attempts = {
        "sqlite": ["DELETE FROM horae_audit", f"REPLACE INTO horae_audit ({columns}) SELECT {forged} FROM horae_audit"],
        "postgresql": ["DELETE FROM horae_audit", "TRUNCATE horae_audit", "TRUNCATE horae_audit CASCADE"],
        "mysql": [
            "DELETE FROM horae_audit",
            "TRUNCATE TABLE horae_audit",
            f"REPLACE INTO horae_audit ({columns}) SELECT {forged} FROM horae_audit",
        ],
    }[engine.dialect.name]
    before = contents(world)

    assert [
        each for each in [*attempts, "DELETE FROM horae_audit WHERE chain_seq IS NULL"] if not refused(engine, each)
    ] == []
    assert contents(world) == before


def test_the_guard_can_be_taken_away_and_put_back(world: World, engine: Engine) -> None:
    with engine.begin() as connection:
        remove(connection)
        assert len(missing(connection)) == 3
    assert not refused(engine, "UPDATE horae_audit SET actor = 'bob' WHERE chain_seq = 2")
    assert len(missing_guards(world)) == 3
    assert [len(each.complaints) for each in verify_audit(world)] == [1]

    migrate(engine)

    assert missing_guards(world) == []
    assert refused(engine, "UPDATE horae_audit SET actor = 'bob' WHERE chain_seq = 2")


def test_a_trigger_that_was_switched_off_counts_as_missing(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE horae_audit DISABLE TRIGGER horae_audit_no_delete")
        assert missing(connection) == [audit_guard.DELETE]
    migrate(engine)
    with engine.connect() as connection:
        assert missing(connection) == []
    engine.dispose()


# -- the tables --------------------------------------------------------------------------------------------------------


def definitions(engine: Engine) -> set[str]:
    """The triggers as the database itself tells them."""
    query = {
        "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
        "mysql": "SELECT concat(event_manipulation, ' ', action_statement) FROM information_schema.triggers "
        "WHERE trigger_schema = DATABASE()",
    }[engine.dialect.name]
    with engine.connect() as connection:
        return set(connection.execute(text(query)).scalars())


def test_migrated_and_made_at_once_have_the_same_triggers(engine: Engine) -> None:
    migrate(engine)
    migrated = definitions(engine)
    with engine.begin() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE horae_version"))
    create_all(engine)

    assert definitions(engine) == migrated
    assert len(migrated) == {"sqlite": 3, "postgresql": 3, "mysql": 2}[engine.dialect.name]


# -- roles that may not ------------------------------------------------------------------------------------------------


def findings(engine: Engine) -> list[tuple[str, str, str | None]]:
    store = open_store(engine, owned=False)
    installation = Installation(Settings(), {}, VirtualClock(NOON))
    return [(each.level, each.text, each.mend) for each in examine_guard(store, installation)]


def as_role(url: str, role: str, password: str) -> Engine:
    return create_store_engine(
        make_url(url).set(username=role, password=password).render_as_string(hide_password=False)
    )


@pytest.fixture
def postgres_role(postgres_database_url: str, postgres_server: PostgresServer) -> Iterator[tuple[Engine, Engine]]:
    """A superuser, and a role that owns the tables that it makes, but has no right to triggers on them."""
    owner = create_store_engine(postgres_database_url)
    role = f"narrow_{name_in(postgres_database_url)}"
    with owner.begin() as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN",
            f"GRANT ALL ON SCHEMA public TO {role}",
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {role} REVOKE TRIGGER ON TABLES FROM {role}",
        ):
            connection.exec_driver_sql(statement)
    narrow = as_role(postgres_database_url, role, "")
    yield owner, narrow
    narrow.dispose()
    with owner.begin() as connection:
        connection.exec_driver_sql(f"DROP OWNED BY {role} CASCADE")
        connection.exec_driver_sql(f"DROP ROLE {role}")
    owner.dispose()


def test_a_postgres_role_without_triggers_migrates_and_is_told(postgres_role: tuple[Engine, Engine]) -> None:
    owner, narrow = postgres_role

    migrate(narrow)

    assert inspect_schema(narrow).is_current
    world = a_history(narrow)
    assert missing_guards(world) == [audit_guard.CHANGE, audit_guard.DELETE, audit_guard.TRUNCATE]
    ((level, words, mend),) = findings(narrow)
    assert (level, "entries can be changed, entries can be deleted" in words) == ("warning", True)
    assert mend is not None
    assert mend.startswith("horae db migrate")
    assert seal_all(world) == 1

    migrate(owner)  # which may

    assert missing_guards(world) == []
    assert [level for level, _, _ in findings(narrow)] == ["ok"]
    assert refused(narrow, "UPDATE horae_audit SET actor = 'bob' WHERE id = 1")
    pause_queue(world, "after")
    assert seal_all(world) == 1
    assert [each.complaints for each in verify_audit(world)] == [()]


@pytest.fixture
def mysql_role(mysql_database_url: str) -> Iterator[tuple[Engine, Engine]]:
    """Root, and a role that may make and change tables, but no triggers."""
    yield from mysql_roles(mysql_database_url, "ALL PRIVILEGES", "TRIGGER")


def mysql_roles(url: str, granted: str, revoked: str) -> Iterator[tuple[Engine, Engine]]:
    root, database = create_store_engine(url), name_in(url)
    role = f"narrow_{database}"
    with root.begin() as connection:
        connection.exec_driver_sql(f"CREATE USER {role}@`127.0.0.1` IDENTIFIED BY 'narrow'")
        connection.exec_driver_sql(f"GRANT {granted} ON {database}.* TO {role}@`127.0.0.1`")
        if revoked:
            connection.exec_driver_sql(f"REVOKE {revoked} ON {database}.* FROM {role}@`127.0.0.1`")
    narrow = as_role(url, role, "narrow")
    yield root, narrow
    narrow.dispose()
    with root.begin() as connection:
        connection.exec_driver_sql(f"DROP USER {role}@`127.0.0.1`")
    root.dispose()


def test_a_mariadb_role_without_triggers_migrates_and_is_told(mysql_role: tuple[Engine, Engine]) -> None:
    root, narrow = mysql_role

    migrate(narrow)

    world = a_history(narrow)
    assert missing_guards(world) == [INVISIBLE]
    ((level, words, mend),) = findings(narrow)
    assert (level, "cannot be seen" in words, mend is not None) == ("warning", True, True)
    assert missing_guards(world_on(root)) == [audit_guard.CHANGE, audit_guard.DELETE]
    assert refused(narrow, "TRUNCATE TABLE horae_audit")
    assert seal_all(world) == 1

    migrate(root)

    assert missing_guards(world_on(root)) == []
    assert refused(narrow, "DELETE FROM horae_audit")
    pause_queue(world, "after")
    assert seal_all(world) == 1
    assert [each.complaints for each in verify_audit(world)] == [()]


class WithBinaryLog(MariaDBServer):
    """A server that writes a binary log, where only SUPER may create triggers."""

    def command(self) -> Sequence[str | Path]:
        return [each for each in super().command() if each != "--skip-log-bin"] + ["--log-bin", "--server-id=1"]


def test_a_mariadb_role_beside_a_binary_log_migrates_and_is_told(own_server: Callable[..., Any]) -> None:
    url = own_server(WithBinaryLog).create_database()
    roles = mysql_roles(url, "ALL PRIVILEGES", "")
    _, narrow = next(roles)

    migrate(narrow)

    world = a_history(narrow)
    assert missing_guards(world) == [audit_guard.CHANGE, audit_guard.DELETE]
    assert refused(narrow, "TRUNCATE TABLE horae_audit")
    assert "log_bin_trust_function_creators" in str(findings(narrow)[0][2])
    next(roles, None)


def test_a_description_of_what_is_missing_says_what_can_happen() -> None:
    words = describe_missing([audit_guard.TRUNCATE, audit_guard.REFERENCE])

    assert words.count("the audit can be truncated") == 1
    assert "horae_audit_no_truncate, horae_audit_guard_entry" in words


# -- copies made with the tools of the servers -------------------------------------------------------------------------


def run(*command: str, **options: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_dump_of_postgres_comes_back_with_its_guard(
    postgres_database_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    world = a_history(engine)
    before, file = contents(world), str(tmp_path / "copy")
    run("pg_dump", "--format=custom", f"--file={file}", postgres_database_url.replace("+psycopg", ""))
    pause_queue(world, "forgotten")
    engine.dispose()

    restored = postgres_server.create_database()
    run("pg_restore", "--single-transaction", f"--dbname={restored.replace('+psycopg', '')}", file)
    again = create_store_engine(restored)
    store = open_store(again)
    world = replace(world, store=store)

    assert contents(world) == before
    assert missing_guards(world) == []
    assert seal_all(world) == 1
    store.close()
    postgres_server.release_database(restored)


def test_a_dump_of_mariadb_comes_back_and_migrate_guards_it(mysql_database_url: str, tmp_path: Path) -> None:
    engine = create_store_engine(mysql_database_url)
    migrate(engine)
    world = a_history(engine)
    before, url, file = contents(world), make_url(mysql_database_url), str(tmp_path / "copy")
    connection = ("--no-defaults", f"--host={url.host}", f"--port={url.port}", f"--user={url.username}", "--skip-ssl")
    once = ("--single-transaction", "--quick", "--skip-triggers")
    run("mariadb-dump", connection[0], *once, *connection[1:], f"--result-file={file}", str(url.database))
    pause_queue(world, "forgotten")

    with open(file) as dump:
        run("mariadb", *connection, str(url.database), stdin=dump)

    assert contents(world) == before
    assert missing_guards(world) == [audit_guard.CHANGE, audit_guard.DELETE]
    migrate(engine)
    assert missing_guards(world) == []
    assert seal_all(world) == 1
    with engine.begin() as held:
        install(held)  # changes nothing where all is there
    engine.dispose()
