"""The history is partitioned by day on PostgreSQL and MariaDB; the key of a run contains its end.

Revision ID: 0017
Revises: 0013

What is there stays where it is and becomes the partition ``old``; on PostgreSQL no row is copied, on MariaDB the
server copies the table once. Rights, owner, row level security and indexes of the tables are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, inspect, text
from sqlalchemy.exc import DBAPIError

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

DAY = 86_400_000_000
AHEAD = 14
# table: the column that it is partitioned by, and its key
TABLES = {
    "horae_runs": ("finished_at", ("job_id", "token", "finished_at")),
    "horae_fires": ("fire_at", ("schedule_id", "kind", "fire_at")),
}
KEY_BEFORE = ("job_id", "token")  # of horae_runs

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
counted = Table(
    "horae_counted_partitions",
    metadata,
    Column("table_name", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("begins_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("table_name", "name"),
    **BYTEWISE,
)

# Whatever changes partitions on PostgreSQL goes through this function. It acts with the rights of the role that
# migrated, for those who may delete from the table anyway.
POSTGRES_ROUTINE = """
CREATE OR REPLACE FUNCTION {schema}.horae_partition(
    verb text, parent text, name text, low bigint, high bigint, patience text
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $body$
DECLARE
    part text := parent || '_' || name;
    rest text := parent || '_rest';
    past text := parent || '_old';
    ordered text := CASE parent WHEN 'horae_runs' THEN 'finished_at' ELSE 'fire_at' END;
    made text;
    rule record;
BEGIN
    IF parent NOT IN ('horae_runs', 'horae_fires') OR name !~ '^(p[0-9]{{8}}|old)$' THEN
        RAISE EXCEPTION 'horae_partition: % is no partition of Horae', part;
    END IF;
    IF NOT has_table_privilege(session_user, parent, 'DELETE') THEN
        RAISE EXCEPTION 'permission denied for table %', parent USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM set_config('lock_timeout', patience, true);
    PERFORM pg_advisory_xact_lock(4715113083);
    IF verb = 'add' THEN
        IF to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent);
        made := part;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
    ELSIF verb = 'split' THEN
        IF to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, rest);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', rest, part);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', rest, parent);
        EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= %s OR %I < %s RETURNING *) '
            'INSERT INTO %I SELECT * FROM moved', part, ordered, high, ordered, low, rest);
        made := rest;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', parent, rest);
    ELSIF verb = 'drop' THEN
        IF to_regclass(part) IS NULL OR name = 'old' THEN
            RETURN false;
        END IF;
        EXECUTE format('DROP TABLE %I', part);
        EXECUTE 'DELETE FROM horae_counted_partitions WHERE table_name = $1 AND name = $2' USING parent, name;
        IF pg_get_expr((SELECT relpartbound FROM pg_class WHERE oid = past::regclass), past::regclass)
            ~ format('TO \\(''?%s''?\\)', low) THEN
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, past);
            EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I < %s RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', rest, ordered, high, past);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', parent, past, high);
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS horae_bound, '
                'ADD CONSTRAINT horae_bound CHECK (%I < %s) NOT VALID', past, ordered, high);
        END IF;
    ELSIF verb = 'validate' THEN
        EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT horae_bound', past);
    ELSE
        RAISE EXCEPTION 'horae_partition: unknown verb %', verb;
    END IF;
    IF made IS NOT NULL AND (SELECT relrowsecurity FROM pg_class WHERE oid = parent::regclass) THEN
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', made);
        FOR rule IN SELECT p.policyname, p.qual, p.with_check FROM pg_policies p
            WHERE p.schemaname = current_schema() AND p.tablename = parent LOOP
            EXECUTE format('CREATE POLICY %I ON %I USING (%s) WITH CHECK (%s)',
                rule.policyname, made, rule.qual, rule.with_check);
        END LOOP;
    END IF;
    RETURN true;
END $body$
"""

# MariaDB: for roles that may not alter tables, if they were granted EXECUTE.
MYSQL_ROUTINE = """
CREATE PROCEDURE horae_partition(
    verb VARCHAR(8), parent VARCHAR(64), name VARCHAR(64), low BIGINT, high BIGINT, patience INT
) SQL SECURITY DEFINER
BEGIN
    IF parent NOT IN ('horae_runs', 'horae_fires') OR name NOT REGEXP '^p[0-9]{8}$'
        OR verb NOT IN ('add', 'merge', 'drop') THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'horae_partition: no partition of Horae';
    END IF;
    SET SESSION lock_wait_timeout = patience;
    SET @horae_change = CASE verb
        WHEN 'add' THEN CONCAT('REORGANIZE PARTITION p_rest INTO (PARTITION ', name, ' VALUES LESS THAN (', high,
            '), PARTITION p_rest VALUES LESS THAN MAXVALUE)')
        WHEN 'merge' THEN CONCAT('REORGANIZE PARTITION p_old, ', name, ' INTO (PARTITION p_old VALUES LESS THAN (',
            high, '))')
        ELSE CONCAT('DROP PARTITION ', name) END;
    IF verb = 'merge' THEN
        SET @horae_first = CONCAT('ALTER TABLE ', parent, ' TRUNCATE PARTITION ', name);
        PREPARE horae_statement FROM @horae_first;
        EXECUTE horae_statement;
    END IF;
    SET @horae_change = CONCAT('ALTER TABLE ', parent, ' ', @horae_change);
    PREPARE horae_statement FROM @horae_change;
    EXECUTE horae_statement;
    DEALLOCATE PREPARE horae_statement;
END
"""


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    connection = op.get_bind()
    metadata.create_all(connection, checkfirst=True)
    {"postgresql": _upgrade_postgres, "sqlite": _upgrade_sqlite}.get(connection.dialect.name, _upgrade_mysql)(
        connection
    )


def downgrade() -> None:
    connection = op.get_bind()
    {"postgresql": _downgrade_postgres, "sqlite": _downgrade_sqlite}.get(connection.dialect.name, _downgrade_mysql)(
        connection
    )
    metadata.drop_all(connection)


def _days(cut: int) -> Iterator[tuple[str, int, int]]:
    """Return name, lower and upper bound of the first partitions."""
    from datetime import UTC, datetime, timedelta

    for index in range(AHEAD):
        low = cut + index * DAY
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=low)
        yield f"p{day:%Y%m%d}", low, low + DAY


def _tomorrow(connection: Connection, now: str) -> int:
    today = int(connection.execute(text(f"SELECT {now}")).scalar_one()) // DAY * DAY
    return today + DAY


# -- PostgreSQL --------------------------------------------------------------------------------------------------------


def _upgrade_postgres(connection: Connection) -> None:
    schema = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    connection.exec_driver_sql(POSTGRES_ROUTINE.format(schema=schema).replace("%", "%%"))
    cut = _tomorrow(connection, "(extract(epoch from clock_timestamp()) * 1000000)::bigint")
    for table, (by, key) in TABLES.items():
        kind = connection.execute(
            text("SELECT relkind FROM pg_class WHERE oid = to_regclass(:t)"), {"t": table}
        ).scalar()
        if kind not in ("p", b"p"):
            _partition_postgres(connection, table, by, key, cut)


def _partition_postgres(connection: Connection, table: str, by: str, key: tuple[str, ...], cut: int) -> None:
    run = connection.exec_driver_sql
    old, rest = f"{table}_old", f"{table}_rest"
    indexes = run(
        "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        f"WHERE i.indrelid = '{table}'::regclass AND NOT i.indisprimary"
    ).all()
    rights = run(
        "SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(grantee::regrole::text) END, privilege_type, "
        f"is_grantable FROM pg_class, aclexplode(relacl) WHERE oid = '{table}'::regclass AND grantee <> relowner"
    ).all()
    policies = run(
        "SELECT policyname, qual, with_check FROM pg_policies "
        f"WHERE schemaname = current_schema AND tablename = '{table}'"
    ).all()
    owner, walled, forced = run(
        "SELECT relowner::regrole::text, relrowsecurity, relforcerowsecurity FROM pg_class "
        f"WHERE oid = '{table}'::regclass"
    ).one()
    run(f"ALTER TABLE {table} RENAME TO {old}")
    for name, _ in indexes:
        run(f"ALTER INDEX {name} RENAME TO {name.replace(table, old, 1)}")
    run(f"ALTER TABLE {old} DROP CONSTRAINT {table}_pkey")
    run(f"ALTER TABLE {old} ADD CONSTRAINT {old}_pkey PRIMARY KEY ({', '.join(key)})")
    like = "INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMMENTS"
    run(f"CREATE TABLE {table} (LIKE {old} {like}) PARTITION BY RANGE ({by})")
    run(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({', '.join(key)})")
    for _, definition in indexes:
        run(definition.replace("%", "%%"))
    run(f"ALTER TABLE {table} OWNER TO {owner}")
    for grantee, right, grantable in rights:
        run(f"GRANT {right} ON {table} TO {grantee}" + (" WITH GRANT OPTION" if grantable else ""))
    later = f"{old}_later"  # ends that lie in the future: a clock was wrong
    run(f"CREATE TEMP TABLE {later} ON COMMIT DROP AS SELECT * FROM {old} WHERE {by} >= {cut}")
    run(f"DELETE FROM {old} WHERE {by} >= {cut}")
    run(f"ALTER TABLE {old} ADD CONSTRAINT horae_bound CHECK ({by} < {cut})")
    run(f"ALTER TABLE {table} ATTACH PARTITION {old} FOR VALUES FROM (MINVALUE) TO ({cut})")
    run(f"CREATE TABLE {rest} PARTITION OF {table} DEFAULT")
    for name, low, high in _days(cut):
        run(f"CREATE TABLE {table}_{name} PARTITION OF {table} FOR VALUES FROM ({low}) TO ({high})")
    run(f"INSERT INTO {table} SELECT * FROM {later}")
    for part in [table, rest, *(f"{table}_{name}" for name, *_ in _days(cut))]:  # none is a way past the wall
        for name, using, check in policies:
            run(f"CREATE POLICY {name} ON {part} USING ({using}) WITH CHECK ({check})")
        if walled:
            run(f"ALTER TABLE {part} ENABLE ROW LEVEL SECURITY")
            run(f"ALTER TABLE {part} {'FORCE' if forced else 'NO FORCE'} ROW LEVEL SECURITY")


def _downgrade_postgres(connection: Connection) -> None:
    run = connection.exec_driver_sql
    run("DROP FUNCTION horae_partition(text, text, text, bigint, bigint, text)")
    for table, (_, key) in TABLES.items():
        names = [index["name"] for index in inspect(connection).get_indexes(table)]
        defined = [
            run(f"SELECT pg_get_indexdef('{name}'::regclass)").scalar_one().replace(" ON ONLY ", " ON ")
            for name in names
        ]
        run(f"ALTER TABLE {table} RENAME TO {table}_parts")
        run(f"CREATE TABLE {table} (LIKE {table}_parts INCLUDING DEFAULTS INCLUDING STORAGE)")
        run(f"INSERT INTO {table} SELECT * FROM {table}_parts")
        run(f"DROP TABLE {table}_parts")
        before = KEY_BEFORE if table == "horae_runs" else key
        run(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({', '.join(before)})")
        for definition in defined:
            run(definition)


# -- MariaDB -----------------------------------------------------------------------------------------------------------


def _upgrade_mysql(connection: Connection) -> None:
    run = connection.exec_driver_sql
    cut = _tomorrow(connection, "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
    for table, (by, key) in TABLES.items():
        partitioned = connection.execute(
            text(
                "SELECT 1 FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = :t "
                "AND partition_name IS NOT NULL LIMIT 1"
            ),
            {"t": table},
        ).scalar()
        if partitioned:
            continue
        days = [f"PARTITION {name} VALUES LESS THAN ({high})" for name, _, high in _days(cut)]
        parts = [f"PARTITION p_old VALUES LESS THAN ({cut})", *days, "PARTITION p_rest VALUES LESS THAN MAXVALUE"]
        keyed = f"DROP PRIMARY KEY, ADD PRIMARY KEY ({', '.join(key)}) " if table == "horae_runs" else ""
        run(f"ALTER TABLE {table} {keyed}PARTITION BY RANGE ({by}) ({', '.join(parts)})")
    try:
        run("DROP PROCEDURE IF EXISTS horae_partition")
        run(MYSQL_ROUTINE)
    except DBAPIError:
        pass  # without the right to make routines; whoever may alter tables does without it


def _downgrade_mysql(connection: Connection) -> None:
    run = connection.exec_driver_sql
    run("DROP PROCEDURE IF EXISTS horae_partition")
    for table in TABLES:
        run(f"ALTER TABLE {table} REMOVE PARTITIONING")
    run(f"ALTER TABLE horae_runs DROP PRIMARY KEY, ADD PRIMARY KEY ({', '.join(KEY_BEFORE)})")


# -- SQLite: one table, another key ------------------------------------------------------------------------------------


def _upgrade_sqlite(connection: Connection) -> None:
    _rekey_sqlite(connection, TABLES["horae_runs"][1])


def _downgrade_sqlite(connection: Connection) -> None:
    _rekey_sqlite(connection, KEY_BEFORE)


def _rekey_sqlite(connection: Connection, key: tuple[str, ...]) -> None:
    run = connection.exec_driver_sql
    if inspect(connection).get_pk_constraint("horae_runs")["constrained_columns"] == list(key):
        return
    made = run("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'horae_runs'").scalar_one()
    other = KEY_BEFORE if key != KEY_BEFORE else TABLES["horae_runs"][1]
    indexes = run(
        "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'horae_runs' AND type = 'index' AND sql <> ''"
    ).all()
    rekeyed = made.replace(f"PRIMARY KEY ({', '.join(other)})", f"PRIMARY KEY ({', '.join(key)})")
    assert rekeyed != made, made
    for name, _ in indexes:
        run(f"DROP INDEX {name}")
    run("ALTER TABLE horae_runs RENAME TO horae_runs_before")
    run(rekeyed)
    columns = ", ".join(column["name"] for column in inspect(connection).get_columns("horae_runs"))
    run(f"INSERT INTO horae_runs ({columns}) SELECT {columns} FROM horae_runs_before")
    run("DROP TABLE horae_runs_before")
    for _, definition in indexes:
        run(definition)
