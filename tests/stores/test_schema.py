"""The version of the tables: made once, by whoever comes first, never half, never backwards."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Engine, Integer, MetaData, Table, inspect, text

from horae.errors import SchemaMissing, SchemaTooNew, StoreUnavailable
from horae.stores.metadata import metadata
from horae.stores.opening import create_store_engine, open_store, store_on
from horae.stores.schema import (
    HEAD,
    KNOWN,
    REMOVED,
    SCRIPTS,
    create_all,
    inspect_schema,
    lock_migrations,
    migrate,
    require_current,
    upgrade,
)
from horae.testing.builders import a_new_job
from horae.testing.conformance.support import put, take
from tests.support.refusals import refused

MIGRATE = """
import sys
from horae.stores.opening import create_store_engine
from horae.stores.schema import migrate
engine = create_store_engine(sys.argv[1])
sys.stdin.read(1)
migrate(engine)
"""


BEFORE_SCHEDULED_RUNS = "0028_sent_jobs"  # the version before the one that replaces an index
# Sequences do not go back with a transaction, so that this counts what was rolled back.
DEADLOCK_TWICE = (
    "CREATE SEQUENCE tries",
    "CREATE FUNCTION deadlock() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') <= 2 THEN "
    "RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'; END IF; END $$",
    "CREATE EVENT TRIGGER deadlock ON ddl_command_start WHEN TAG IN ('ALTER INDEX') EXECUTE FUNCTION deadlock()",
)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_store_engine(database_url)
    yield engine
    engine.dispose()


def test_an_empty_database_gets_all_tables(engine: Engine) -> None:
    migrate(engine)

    assert set(metadata.tables) <= set(inspect(engine).get_table_names())
    assert inspect_schema(engine).is_current


def test_the_names_of_the_files_are_the_chain_of_versions() -> None:
    """What is known is read from the names; Alembic goes by what stands in the files."""
    chain = [each.revision for each in ScriptDirectory(str(SCRIPTS)).walk_revisions()]

    assert tuple(reversed(chain)) == KNOWN
    assert chain[0] == HEAD
    assert max(map(len, KNOWN)) <= 32  # the width of horae_version
    assert not REMOVED & set(KNOWN)


def test_migrating_again_changes_nothing(engine: Engine) -> None:
    migrate(engine)
    store = store_on(engine)
    put(store, a_new_job())

    before = migrate(engine)

    assert before.is_current
    assert len(take(store)) == 1
    store.close()


def test_an_upgrade_that_deadlocks_with_other_work_is_tried_again(postgres_database_url: str) -> None:
    """What has read a table and then writes it waits for the upgrade, and the upgrade for it: one of them is ended."""
    engine = create_store_engine(postgres_database_url)
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE horae_version SET version_num = :before"), {"before": BEFORE_SCHEDULED_RUNS})
        for statement in DEADLOCK_TWICE:
            connection.execute(text(statement))

    assert migrate(engine).found == BEFORE_SCHEDULED_RUNS

    assert inspect_schema(engine).is_current
    engine.dispose()


def test_four_processes_that_migrate_at_once_agree(database_url: str) -> None:
    """Real processes, let go at the same moment."""
    command = [sys.executable, "-c", MIGRATE, database_url]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("!")
        process.stdin.close()
    answer = [process.stderr.read() for process in processes if process.stderr is not None]

    assert ([process.wait(60) for process in processes], answer) == ([0] * 4, [""] * 4)
    engine = create_store_engine(database_url)
    assert inspect_schema(engine).is_current
    engine.dispose()


def test_a_newer_schema_is_refused_with_advice(engine: Engine) -> None:
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE horae_version SET version_num = '9999'"))

    for verb in (inspect_schema, migrate, require_current, open_store):
        with refused(SchemaTooNew, "tables_too_new", version="9999"):
            verb(engine)


@pytest.mark.parametrize("version", ["0001", "0020"])
def test_tables_of_before_the_baseline_are_refused_with_the_way_out(engine: Engine, version: str) -> None:
    """Nothing can migrate them; the way is a file."""
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE horae_version SET version_num = :version"), {"version": version})

    for verb in (inspect_schema, migrate, require_current, open_store):
        with refused(SchemaMissing, "tables_too_old", version=version) as problem:
            verb(engine)
        assert {"horae db export", "horae db import"} <= set(re.findall("horae db [a-z]+", str(problem.value)))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM horae_version")).scalar() == version


def test_a_server_without_tables_is_refused_with_the_command_that_helps(postgres_database_url: str) -> None:
    engine = create_store_engine(postgres_database_url)

    with refused(SchemaMissing, "tables_old"):
        open_store(engine)
    engine.dispose()


def test_a_new_sqlite_file_is_made_at_once(sqlite_database_url: str) -> None:
    store = open_store(create_store_engine(sqlite_database_url))

    assert len(put(store, a_new_job())) == 1
    store.close()


def test_a_database_in_memory_can_be_opened_twice() -> None:
    engine = create_store_engine("sqlite://")
    first = open_store(engine)
    put(first, a_new_job())

    assert len(take(open_store(engine))) == 1
    first.close()


PARTITION = re.compile("horae_(runs|fires)_(old|rest|p[0-9]{8})")


def ours_only(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    name = name or ""
    return kind != "table" or (name.startswith("horae_") and name != "horae_version" and not PARTITION.fullmatch(name))


def migrate_step_by_step(engine: Engine) -> None:
    """Run every migration, also on SQLite, where a new file gets its tables at once."""
    with lock_migrations(engine) as connection:
        upgrade(connection)


def test_the_migrations_make_exactly_the_tables_of_the_code(engine: Engine) -> None:
    migrate_step_by_step(engine)

    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours_only, "compare_type": False})
        differences = compare_metadata(context, metadata)

    made_by_hand = [answer for answer in differences if not is_about_partial_indexes(answer)]
    assert made_by_hand == []


def is_about_partial_indexes(difference: Any) -> bool:
    """Some indexes differ between databases; the next test compares them."""
    names = (
        "horae_jobs_",
        "horae_runs_cancelled",
        "horae_runs_schedule",
        "horae_audit_unsealed",
        "horae_journal_unsealed",
    )
    return bool(difference[0] == "remove_index" and difference[1].name.startswith(names))


def condition_of(index: Any) -> str:
    """The condition of a partial index, as the database tells it."""
    return next((str(told) for name, told in index.get("dialect_options", {}).items() if name.endswith("where")), "")


def shape(engine: Engine) -> dict[str, Any]:
    look = inspect(engine)
    return {
        table: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in look.get_columns(table)],
            sorted(
                (index["name"] or "", index["column_names"], bool(index["unique"]), condition_of(index))
                for index in look.get_indexes(table)
            ),
            look.get_pk_constraint(table)["constrained_columns"],
        )
        for table in sorted(look.get_table_names())
        if table.startswith("horae_") and table != "horae_version" and not PARTITION.fullmatch(table)
    }


def test_migrated_and_made_at_once_are_the_same(engine: Engine) -> None:
    """Columns, types, keys and indexes, as the database itself tells them."""
    migrate_step_by_step(engine)
    migrated = shape(engine)
    with engine.begin() as connection:
        metadata.drop_all(connection)
        connection.execute(text("DROP TABLE horae_version"))

    create_all(engine)

    assert shape(engine) == migrated


@pytest.mark.parametrize(
    "stopped_after", ["the first table", "all tables, before their indexes", "everything but the version"]
)
def test_a_migration_that_stopped_halfway_can_be_repeated(engine: Engine, stopped_after: str) -> None:
    """MariaDB commits each statement of a migration by itself."""
    migrate_step_by_step(engine)
    whole = shape(engine)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM horae_version"))
        if stopped_after == "the first table":
            metadata.drop_all(connection, tables=[t for name, t in metadata.tables.items() if name != "horae_jobs"])
        if stopped_after == "all tables, before their indexes":
            on = " ON {}" if engine.dialect.name in ("mysql", "mariadb") else ""
            for table in metadata.tables:
                for index in inspect(connection).get_indexes(table):
                    if (index["name"] or "").startswith("horae_") and "duplicates_constraint" not in index:
                        connection.execute(text(f"DROP INDEX {index['name']}" + on.format(table)))

    migrate(engine)

    assert shape(engine) == whole
    assert inspect_schema(engine).found == HEAD


def test_tables_of_the_application_are_left_alone(engine: Engine) -> None:
    theirs = MetaData()
    Table("customers", theirs, Column("id", Integer, primary_key=True))
    Table("alembic_version", theirs, Column("version_num", Integer, primary_key=True))
    theirs.create_all(engine)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO customers VALUES (7)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (42)"))

    migrate(engine)

    with engine.connect() as connection:
        kept = [connection.execute(text(f"SELECT * FROM {name}")).scalar() for name in ("customers", "alembic_version")]
    assert kept == [7, 42]


@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/none", "mysql://nobody@127.0.0.1:1/none", "sqlite:////proc/none/horae.db"]
)
@pytest.mark.parametrize("verb", [migrate, open_store, inspect_schema])
def test_a_database_that_is_not_there_is_told_in_our_words(url: str, verb: Any) -> None:
    with pytest.raises(StoreUnavailable):
        verb(create_store_engine(url) if "proc" not in url else _engine_in_a_folder_that_cannot_be(url))


def _engine_in_a_folder_that_cannot_be(url: str) -> Engine:
    from horae.stores.databases.sqlite import create_sqlite_engine

    return create_sqlite_engine(url)


def test_mariadb_by_its_own_name_gets_the_same_tables(mysql_database_url: str) -> None:
    """The dialect has two names; options given for one only would leave the other with the server's defaults."""
    engine = create_store_engine(mysql_database_url.replace("mysql+pymysql", "mariadb+pymysql"))
    migrate(engine)
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT DISTINCT table_collation FROM information_schema.tables "
                "WHERE table_schema = DATABASE() AND table_name LIKE 'horae%' AND table_name <> 'horae_version'"
            )
        )
        assert [row[0] for row in rows] == ["utf8mb4_bin"]
    engine.dispose()
