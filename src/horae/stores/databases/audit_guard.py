"""What keeps the database itself from changing audit entries: triggers, and a foreign key where TRUNCATE fires none.

Only ``chain_seq`` and ``hash`` may be written, once, while they are null; nothing is deleted or truncated. An owner of
the tables can take the guard away; then the chains are the evidence. Where a role may not create a part, the others
are still made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from sqlalchemy import Column, Connection, text
from sqlalchemy.exc import DBAPIError

from horae.core.dataclass import dataclass
from horae.stores.codecs import Json
from horae.stores.databases.dialects import BY_NAME

SEALED = ("chain_seq", "hash")
MESSAGE = "horae_audit is append-only: entries are neither changed nor deleted"
CHANGE, DELETE, REPLACE, TRUNCATE = (f"horae_audit_no_{verb}" for verb in ("change", "delete", "replace", "truncate"))
REFERENCE = "horae_audit_guard_entry"
INVISIBLE = "horae_audit_invisible"  # this role may not see triggers: whether they are there is unknown
# What databases answer where a role may not do something: PostgreSQL in words, MariaDB in numbers.
NOT_PERMITTED = {"42501", 1044, 1142, 1143, 1227, 1370, 1419}


@dataclass(frozen=True, slots=True)
class Guard:
    """The parts of the guard of one kind of database."""

    parts: Callable[[], Mapping[str, Sequence[str]]]  # by name: the statements that make it; few processes need them
    undo: Mapping[str, str]  # by name: the statement that takes it away
    present: str  # asks for the names of the parts that are there
    sees: str = ""  # asks whether this role can see triggers; empty: every role can


def missing(connection: Connection) -> list[str]:
    """Return the names of the parts that the database does not have; :data:`INVISIBLE` where it will not say."""
    guard = _guard(connection)
    absent = _absent(connection, guard)
    if absent and guard.sees and not connection.execute(text(guard.sees)).scalar():
        return [INVISIBLE]
    return absent


def install(connection: Connection) -> None:
    """Make every part that is missing and that the role of this connection may make."""
    transactional = BY_NAME[connection.dialect.name].transactional_ddl
    guard = _guard(connection)
    absent = _absent(connection, guard)
    parts = guard.parts() if absent else {}
    for name in absent:
        try:
            with connection.begin_nested() if transactional else nullcontext():
                for statement in parts[name]:
                    connection.exec_driver_sql(statement)
        except DBAPIError as problem:
            if not is_not_permitted(problem):
                raise


def remove(connection: Connection) -> None:
    """Take the guard away, for tools that must change entries."""
    guard = _guard(connection)
    absent = _absent(connection, guard)
    for name in guard.undo:
        if name not in absent:
            connection.exec_driver_sql(guard.undo[name])


def _absent(connection: Connection, guard: Guard) -> list[str]:
    found = set(connection.execute(text(guard.present)).scalars())
    return [name for name in guard.undo if name not in found]


def _guard(connection: Connection) -> Guard:
    return GUARDS[BY_NAME[connection.dialect.name].name]


def is_not_permitted(problem: DBAPIError) -> bool:
    original = problem.orig
    number = original.args[0] if original is not None and original.args else None
    return getattr(original, "sqlstate", None) in NOT_PERMITTED or number in NOT_PERMITTED


def kept_columns() -> list[Column[Any]]:
    """Return the columns of an entry that never change."""
    from horae.stores.tables.audit import audit  # few processes need the table itself

    return [column for column in audit.columns if column.name not in SEALED]


def _changed(differs: str, json: str = "{}") -> str:
    """Return a condition: the entry is sealed already, or something else than its seal would change."""
    pairs = [
        differs.format(new=form.format(f"NEW.{each.name}"), old=form.format(f"OLD.{each.name}"))
        for each in kept_columns()
        for form in (json if isinstance(each.type, Json) else "{}",)
    ]
    return " OR ".join([*(f"OLD.{name} IS NOT NULL" for name in SEALED), *pairs])


_REFUSE = f"BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
_SQLITE = Guard(
    parts=lambda: {
        CHANGE: [
            f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit WHEN {_changed('{new} IS NOT {old}')} {_REFUSE}"
        ],
        DELETE: [f"CREATE TRIGGER {DELETE} BEFORE DELETE ON horae_audit {_REFUSE}"],
        # INSERT OR REPLACE deletes a row without firing the trigger above.
        REPLACE: [
            f"CREATE TRIGGER {REPLACE} BEFORE INSERT ON horae_audit "
            f"WHEN EXISTS (SELECT 1 FROM horae_audit WHERE id = NEW.id) {_REFUSE}"
        ],
    },
    undo={name: f"DROP TRIGGER {name}" for name in (CHANGE, DELETE, REPLACE)},
    present="SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'horae_audit'",
)
_FUNCTION = (
    "CREATE OR REPLACE FUNCTION horae_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$BEGIN RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'restrict_violation'; END$$"
)
_POSTGRES = Guard(
    parts=lambda: {
        name: [
            _FUNCTION,
            f"DROP TRIGGER IF EXISTS {name} ON horae_audit",
            f"CREATE TRIGGER {name} BEFORE {event} EXECUTE FUNCTION horae_audit_refuse()",
        ]
        for name, event in {
            CHANGE: "UPDATE ON horae_audit FOR EACH ROW WHEN "
            f"({_changed('{new} IS DISTINCT FROM {old}', json='{}::text')})",
            DELETE: "DELETE ON horae_audit FOR EACH ROW",
            TRUNCATE: "TRUNCATE ON horae_audit FOR EACH STATEMENT",
        }.items()
    },
    undo={name: f"DROP TRIGGER {name} ON horae_audit" for name in (CHANGE, DELETE, TRUNCATE)},
    present="SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass('horae_audit') AND NOT tgisinternal "
    "AND tgenabled IN ('O', 'A')",
)
_SIGNAL = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{MESSAGE}'"
_PRIVILEGES = "information_schema.{}_privileges WHERE privilege_type = 'TRIGGER'"
_MYSQL = Guard(
    parts=lambda: {
        CHANGE: [
            f"DROP TRIGGER IF EXISTS {CHANGE}",
            f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit FOR EACH ROW "
            f"BEGIN IF {_changed('NOT (BINARY {new} <=> BINARY {old})')} THEN {_SIGNAL}; END IF; END",
        ],
        DELETE: [
            f"DROP TRIGGER IF EXISTS {DELETE}",
            f"CREATE TRIGGER {DELETE} BEFORE DELETE ON horae_audit FOR EACH ROW {_SIGNAL}",
        ],
        # TRUNCATE fires no trigger here; InnoDB refuses it where another table refers to this one.
        REFERENCE: [
            f"ALTER TABLE horae_audit_guard ADD CONSTRAINT {REFERENCE} FOREIGN KEY (entry) "
            "REFERENCES horae_audit (id)"
        ],
    },
    undo={
        CHANGE: f"DROP TRIGGER {CHANGE}",
        DELETE: f"DROP TRIGGER {DELETE}",
        REFERENCE: f"ALTER TABLE horae_audit_guard DROP FOREIGN KEY {REFERENCE}",
    },
    present="SELECT trigger_name FROM information_schema.triggers WHERE event_object_schema = DATABASE() "
    "AND event_object_table = 'horae_audit' UNION SELECT constraint_name FROM "
    "information_schema.referential_constraints WHERE constraint_schema = DATABASE() "
    "AND table_name = 'horae_audit_guard'",
    # Privileges of a database may be granted for a pattern of names.
    sees="SELECT EXISTS (SELECT 1 FROM " + _PRIVILEGES.format("user") + ") OR EXISTS (SELECT 1 FROM "
    + _PRIVILEGES.format("schema") + " AND DATABASE() LIKE table_schema) OR EXISTS (SELECT 1 FROM "
    + _PRIVILEGES.format("table") + " AND table_schema = DATABASE() AND table_name = 'horae_audit')",
)  # fmt: skip
GUARDS = {"sqlite": _SQLITE, "postgresql": _POSTGRES, "mysql": _MYSQL}
