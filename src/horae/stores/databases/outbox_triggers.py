"""Triggers that note events for a message bus, in the transaction of what they tell.

They are the database's, so that no path of ours and no caller's own transaction can forget an event, and a database
without a bus pays nothing: without the triggers there is nothing to ask. Jobs of Horae's own are left out. PostgreSQL
notes a whole statement at once; the others note row by row.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from horae.core.dataclass import dataclass
from horae.core.jobs.machinery import MACHINERY
from horae.errors import NotAllowed
from horae.stores.databases.audit_guard import is_not_permitted
from horae.stores.databases.dialects import BY_NAME

ENQUEUED, ENDED, FIRED = (f"horae_bus_{kind}" for kind in ("enqueued", "ended", "fired"))
TABLES = {ENQUEUED: "horae_jobs", ENDED: "horae_runs", FIRED: "horae_fires"}
_JOB = "job_id, token, queue, handler, owner, fire_at, trace_id"
# What each notes: the columns of the outbox, their values from the new rows, and which rows count.
_NOTES = {
    ENQUEUED: (
        f"kind, happened_at, attempt, {_JOB}",
        "'enqueued', n.created_at, NULL, n.id, NULL, n.queue, n.handler, n.owner, n.fire_at, n.trace_id",
        f"n.queue <> '{MACHINERY}'",
    ),
    ENDED: (
        f"kind, happened_at, attempt, outcome, state, {_JOB}",
        "'ended', n.finished_at, n.attempt, n.outcome, n.state, n.job_id, n.token, n.queue, n.handler, n.owner, "
        "n.fire_at, n.trace_id",
        f"n.queue <> '{MACHINERY}'",
    ),
    FIRED: (
        "kind, happened_at, outcome, job_id, queue, handler, owner, schedule_key, fire_at",
        "'fired', n.recorded_at, n.verdict, n.job_id, s.queue, s.handler, s.owner, s.schedule_key, n.fire_at",
        "TRUE",
    ),
}
_JOINED = " JOIN horae_schedules s ON s.id = n.schedule_id"


@dataclass(frozen=True, slots=True)
class Triggers:
    """The triggers of one kind of database."""

    make: Mapping[str, tuple[str, ...]]
    drop: Mapping[str, tuple[str, ...]]
    present: str


def missing(connection: Connection) -> list[str]:
    """Return the names of the triggers that are not there."""
    there = set(connection.execute(text(_of(connection).present)).scalars())
    return [name for name in TABLES if name not in there]


def make(connection: Connection) -> None:
    """Make the triggers that are missing."""
    statements = _of(connection).make
    try:
        for name in missing(connection):
            for statement in statements[name]:
                connection.exec_driver_sql(statement)
    except DBAPIError as problem:
        if is_not_permitted(problem):
            raise NotAllowed("bus_triggers_not_permitted") from problem
        raise


def drop(connection: Connection) -> None:
    """Take away those that are there."""
    absent = missing(connection)
    for name, statements in _of(connection).drop.items():
        if name not in absent:
            for statement in statements:
                connection.exec_driver_sql(statement)


def _of(connection: Connection) -> Triggers:
    return BY_DATABASE[BY_NAME[connection.dialect.name].name]


def _by_row(name: str) -> str:
    """Return the body of a trigger that sees one new row."""
    columns, values, counts = (each.replace("n.", "NEW.") for each in _NOTES[name])
    joined = "FROM horae_schedules s WHERE s.id = NEW.schedule_id AND" if name == FIRED else "WHERE"
    return f"INSERT INTO horae_outbox ({columns}) SELECT {values} {joined} {counts}"


def _by_statement(name: str) -> str:
    columns, values, counts = _NOTES[name]
    joined = _JOINED if name == FIRED else ""
    ordered = {ENQUEUED: "n.id", ENDED: "n.job_id, n.token", FIRED: "n.fire_at"}[name]
    return (
        f"INSERT INTO horae_outbox ({columns}) SELECT {values} FROM fresh n{joined} WHERE {counts} ORDER BY {ordered}"
    )


_POSTGRES = Triggers(
    make={
        name: (
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS "
            f"$$BEGIN {_by_statement(name)}; RETURN NULL; END$$",
            f"CREATE TRIGGER {name} AFTER INSERT ON {table} REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {name}()",
        )
        for name, table in TABLES.items()
    },
    drop={
        name: (f"DROP TRIGGER {name} ON {table}", f"DROP FUNCTION IF EXISTS {name}()") for name, table in TABLES.items()
    },
    present="SELECT tgname FROM pg_trigger WHERE tgrelid IN (to_regclass('horae_jobs'), to_regclass('horae_runs'), "
    "to_regclass('horae_fires')) AND NOT tgisinternal AND tgenabled IN ('O', 'A')",
)
_SQLITE = Triggers(
    make={
        name: (f"CREATE TRIGGER {name} AFTER INSERT ON {table} BEGIN {_by_row(name)}; END",)
        for name, table in TABLES.items()
    },
    drop={name: (f"DROP TRIGGER {name}",) for name in TABLES},
    present="SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'horae_bus_%'",
)
_MYSQL = Triggers(
    make={
        name: (f"CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH ROW {_by_row(name)}",)
        for name, table in TABLES.items()
    },
    drop={name: (f"DROP TRIGGER {name}",) for name in TABLES},
    present="SELECT trigger_name FROM information_schema.triggers WHERE event_object_schema = DATABASE() "
    "AND trigger_name LIKE 'horae\\\\_bus\\\\_%'",
)
BY_DATABASE = {"sqlite": _SQLITE, "postgresql": _POSTGRES, "mysql": _MYSQL}
