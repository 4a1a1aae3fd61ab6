"""The database itself refuses to change, delete or truncate audit entries; an owner's chain has an index.

Revision ID: 0014
Revises: 0013

Where the role may not create triggers or a foreign key, the migration goes on; `horae doctor` and `horae audit verify`
say so, and `horae db migrate` makes them later, with a role that may.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, inspect, text
from sqlalchemy.exc import DBAPIError

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

INDEX = "horae_audit_owner_chain"
GUARD = "horae_audit_guard"
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
guard = Table(
    GUARD,
    MetaData(),
    Column("entry", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    **BYTEWISE,
)
# The foreign key stands beside the table, so that the table is made where the key may not be. SQLite cannot add one.
SQLITE_GUARD = (
    f"CREATE TABLE {GUARD} (entry INTEGER NOT NULL, PRIMARY KEY (entry), "
    "CONSTRAINT horae_audit_guard_entry FOREIGN KEY(entry) REFERENCES horae_audit (id))"
)
REFERENCE = (
    f"ALTER TABLE {GUARD} ADD CONSTRAINT horae_audit_guard_entry FOREIGN KEY (entry) REFERENCES horae_audit (id)"
)
NOT_PERMITTED = {"42501", 1044, 1142, 1143, 1227, 1370, 1419}

MESSAGE = "horae_audit is append-only: entries are neither changed nor deleted"
KEPT = ("id", "at", "actor", "verb", "object_type", "object_id", "owner", "reason")
KEPT_JSON = ("state_before", "state_after", "evidence")
NAMES = ("horae_audit_no_change", "horae_audit_no_delete", "horae_audit_no_replace", "horae_audit_no_truncate")
CHANGE, DELETE, REPLACE, TRUNCATE = NAMES


def changed(differs: str, json: str = "{}") -> str:
    """Return a condition: the entry is sealed already, or something else than its seal would change."""
    pairs = [differs.format(new=f"NEW.{name}", old=f"OLD.{name}") for name in KEPT]
    pairs += [differs.format(new=json.format(f"NEW.{name}"), old=json.format(f"OLD.{name}")) for name in KEPT_JSON]
    return " OR ".join(["OLD.chain_seq IS NOT NULL", "OLD.hash IS NOT NULL", *pairs])


def sqlite_triggers() -> list[list[str]]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
    is_known = "EXISTS (SELECT 1 FROM horae_audit WHERE id = NEW.id)"  # INSERT OR REPLACE
    return [
        [f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit WHEN {changed('{new} IS NOT {old}')} {refuse}"],
        [f"CREATE TRIGGER {DELETE} BEFORE DELETE ON horae_audit {refuse}"],
        [f"CREATE TRIGGER {REPLACE} BEFORE INSERT ON horae_audit WHEN {is_known} {refuse}"],
    ]


def postgres_triggers() -> list[list[str]]:
    function = (
        "CREATE OR REPLACE FUNCTION horae_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'restrict_violation'; END$$"
    )
    events = {
        CHANGE: f"UPDATE ON horae_audit FOR EACH ROW WHEN ({changed('{new} IS DISTINCT FROM {old}', '{}::text')})",
        DELETE: "DELETE ON horae_audit FOR EACH ROW",
        TRUNCATE: "TRUNCATE ON horae_audit FOR EACH STATEMENT",
    }
    return [
        [function, f"CREATE TRIGGER {name} BEFORE {event} EXECUTE FUNCTION horae_audit_refuse()"]
        for name, event in events.items()
    ]


def mysql_triggers() -> list[list[str]]:
    signal = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{MESSAGE}'"
    condition = changed("NOT (BINARY {new} <=> BINARY {old})")
    row = "ON horae_audit FOR EACH ROW"
    return [
        [f"CREATE TRIGGER {CHANGE} BEFORE UPDATE {row} BEGIN IF {condition} THEN {signal}; END IF; END"],
        [f"CREATE TRIGGER {DELETE} BEFORE DELETE {row} {signal}"],
    ]


TRIGGERS = {
    "sqlite": sqlite_triggers, "postgresql": postgres_triggers, "mysql": mysql_triggers, "mariadb": mysql_triggers,
}  # fmt: skip


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    vendor = bind.dialect.name
    look = inspect(bind)
    if INDEX not in {index["name"] for index in look.get_indexes("horae_audit")}:
        op.execute(text(f"CREATE INDEX {INDEX} ON horae_audit (owner, chain_seq, id)"))
    if not look.has_table(GUARD):
        if vendor == "sqlite":
            op.execute(text(SQLITE_GUARD))
        else:
            guard.create(bind)
    drop_triggers()
    if vendor != "sqlite" and not inspect(bind).get_foreign_keys(GUARD):
        permitted([REFERENCE])
    for statements in TRIGGERS[vendor]():
        permitted(statements)


def permitted(statements: Sequence[str]) -> None:
    """Execute statements; leave them out where the role may not."""
    bind = op.get_bind()
    try:
        with bind.begin_nested() if bind.dialect.name == "postgresql" else nullcontext():
            for statement in statements:
                bind.exec_driver_sql(statement)
    except DBAPIError as problem:
        number = problem.orig.args[0] if problem.orig is not None and problem.orig.args else None
        if getattr(problem.orig, "sqlstate", None) not in NOT_PERMITTED and number not in NOT_PERMITTED:
            raise


def drop_triggers() -> None:
    on = " ON horae_audit" if op.get_bind().dialect.name == "postgresql" else ""
    for name in NAMES:
        permitted([f"DROP TRIGGER IF EXISTS {name}{on}"])


def downgrade() -> None:
    drop_triggers()
    if op.get_bind().dialect.name == "postgresql":
        op.execute(text("DROP FUNCTION IF EXISTS horae_audit_refuse()"))
    op.drop_table(GUARD)
    op.drop_index(INDEX, "horae_audit")
