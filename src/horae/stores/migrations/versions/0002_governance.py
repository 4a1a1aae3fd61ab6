"""Governed objects and what is decided about them; audit entries say more, and reasons that can be erased.

Revision ID: 0002_governance
Revises: 0001_baseline

A frozen copy of the tables as they were then. The triggers that guard the audit name its columns, so they are made
anew; where the role may not, the migration goes on, and `horae doctor` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    inspect,
)
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import DBAPIError

revision = "0002_governance"
down_revision = "0001_baseline"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Number = BigInteger().with_variant(Integer, "sqlite")
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
Json = LongText.with_variant(postgresql.JSON(), "postgresql")
AUDIT = {
    "event_kind": String(20),
    "risk": String(8),
    "decision": String(150),
    "job": String(32),
    "correlation": String(100),
    "reason_digest": String(64),
}

audit_reasons = Table(
    "horae_audit_reasons",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("reason_key", String(64), nullable=False),
    Column("reason", LongText, nullable=False),
    Index("horae_audit_reasons_owner", "owner"),
    **BYTEWISE,
)
objects = Table(
    "horae_objects",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", String(255), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("object_id", String(150), nullable=False),
    Column("state", String(40), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("state_since", BigInteger, nullable=False),
    Column("agent", String(100), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("category", String(12), nullable=False),
    Column("version", Integer, nullable=False),
    Column("risk", String(8), nullable=False),
    Column("impact", String(8), nullable=False),
    Column("confidence", Integer),
    Column("tamper", Integer),
    Column("contested", SmallInteger, nullable=False),
    Column("protected", SmallInteger, nullable=False),
    Column("rejected", SmallInteger, nullable=False),
    Column("needs_person", SmallInteger, nullable=False),
    Column("stalled", SmallInteger, nullable=False),
    Column("unknown_type", String(20)),
    Column("mode", String(12)),
    Column("superseded_by", String(150)),
    Column("stability", BigInteger, nullable=False),
    Column("verified_at", BigInteger),
    Column("checked_at", BigInteger),
    Column("review_due_at", BigInteger),
    Column("used_at", BigInteger),
    Column("reinforced_at", BigInteger),
    Column("stale_since", BigInteger),
    Column("uncertain_until", BigInteger),
    Column("expires_at", BigInteger),
    Column("kept_until", BigInteger),
    Column("asked_action", String(20)),
    Column("asked_at", BigInteger),
    Column("verify_used", Integer, nullable=False),
    Column("reinforcements", Integer, nullable=False),
    Column("new_evidence", Integer, nullable=False),
    Column("reinstate_signal", SmallInteger, nullable=False),
    Column("inconclusives", Integer, nullable=False),
    Column("reinstate_checks", Integer, nullable=False),
    Column("next_action", String(20)),
    Column("next_action_at", BigInteger),
    Column("job_id", BigInteger),
    Column("queue", String(100), nullable=False),
    Column("admitted_version", Integer),
    Column("put_backs", Integer, nullable=False),
    Column("reviews", Integer, nullable=False),
    Column("reviewed_at", BigInteger),
    Column("proposer", String(255), nullable=False),
    Column("source_type", String(40), nullable=False),
    Column("source", String(500), nullable=False),
    Column("subject_key", String(64), nullable=False),
    Column("fingerprint", String(64)),
    Column("opinions", Json),
    Column("decision", String(150)),
    Column("erased_at", BigInteger),
    Index("horae_objects_agent", "owner", "agent", "id"),
    Index("horae_objects_due", "next_action_at", "id"),
    Index("horae_objects_job", "job_id"),
    Index("horae_objects_name", "owner", "kind", "object_id", unique=True),
    Index("horae_objects_print", "owner", "fingerprint"),
    Index("horae_objects_put_back", "owner", "put_backs"),
    Index("horae_objects_state", "owner", "kind", "state", "id"),
    Index("horae_objects_subject", "owner", "subject_key", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
object_versions = Table(
    "horae_object_versions",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("object_number", Number, nullable=False),
    Column("version", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("verb", String(40), nullable=False),
    Column("state", String(40), nullable=False),
    Column("snapshot", Json, nullable=False),
    Column("content", LongText),
    Column("content_key", String(64)),
    Column("digest", String(64)),
    PrimaryKeyConstraint("object_number", "version"),
    **BYTEWISE,
)
object_links = Table(
    "horae_object_links",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("object_number", Number, nullable=False),
    Column("rests_on", Number, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("object_number", "rests_on"),
    Index("horae_object_links_lower", "rests_on", "object_number"),
    **BYTEWISE,
)
removals = Table(
    "horae_removals",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("day_at", BigInteger, nullable=False),
    Column("removed", Integer, nullable=False),
    Column("live_objects", Integer),
    PrimaryKeyConstraint("owner", "day_at"),
    **BYTEWISE,
)
evidence = Table(
    "horae_evidence",
    metadata,
    Column("evidence_id", String(40), primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("object_number", Number, nullable=False),
    Column("reference", String(500), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("source", String(500), nullable=False),
    Column("derived", SmallInteger, nullable=False),
    Column("survived", SmallInteger, nullable=False),
    Column("note", LongText),
    Column("reference_key", String(64), nullable=False),
    Index("horae_evidence_reference", "object_number", "reference_key", unique=True),
    **BYTEWISE,
)
policies = Table(
    "horae_policies",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("agent", String(100), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("version", Integer, nullable=False),
    Column("settings", Json, nullable=False),
    Column("set_at", BigInteger, nullable=False),
    Column("set_by", String(255), nullable=False),
    PrimaryKeyConstraint("owner", "agent", "kind", "version"),
    **BYTEWISE,
)
personas = Table(
    "horae_personas",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("agent", String(100), nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    Column("changed_by", String(255), nullable=False),
    Column("boundaries", Json, nullable=False),
    Column("persona_values", Json, nullable=False),
    Column("archived", SmallInteger, nullable=False),
    Column("version", Integer, nullable=False),
    PrimaryKeyConstraint("owner", "agent"),
    **BYTEWISE,
)
decisions = Table(
    "horae_decisions",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", String(255), nullable=False),
    Column("decision_id", String(150), nullable=False),
    Column("action_text", LongText, nullable=False),
    Column("risk", String(8), nullable=False),
    Column("outcome", String(12), nullable=False),
    Column("mode", String(12), nullable=False),
    Column("reason", LongText, nullable=False),
    Column("standing", String(12), nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("agent", String(100), nullable=False),
    Column("gates", Json, nullable=False),
    Column("correlation", String(100)),
    Column("job_id", BigInteger),
    Column("review", String(150)),
    Column("predecessor", String(150)),
    Column("successor", String(150)),
    Column("rolled_back_at", BigInteger),
    CheckConstraint("risk <> 'high' OR outcome <> 'executed'", name="horae_decisions_high_risk"),
    Index("horae_decisions_agent", "owner", "agent", "id"),
    Index("horae_decisions_name", "owner", "decision_id", unique=True),
    Index("horae_decisions_outcome", "owner", "outcome", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
decision_cites = Table(
    "horae_decision_cites",
    metadata,
    Column("decision_number", Number, nullable=False),
    Column("object_number", Number, nullable=False),
    Column("owner", String(255), nullable=False),
    Column("version", Integer, nullable=False),
    Column("state", String(40), nullable=False),
    PrimaryKeyConstraint("decision_number", "object_number"),
    Index("horae_decision_cites_object", "object_number", "decision_number"),
    **BYTEWISE,
)
reviews = Table(
    "horae_reviews",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", String(255), nullable=False),
    Column("review_id", String(150), nullable=False),
    Column("kind", String(12), nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("opened_by", String(255), nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("state", String(8), nullable=False),
    Column("object_number", BigInteger),
    Column("decision_id", String(150)),
    Column("agent", String(100), nullable=False),
    Column("automatic", SmallInteger, nullable=False),
    Column("question", LongText),
    Column("job_id", BigInteger),
    Column("answer", String(12)),
    Column("answered_at", BigInteger),
    Column("answered_by", String(255)),
    Column("note", LongText),
    Column("successor", String(150)),
    Index("horae_reviews_due", "state", "deadline"),
    Index("horae_reviews_name", "owner", "review_id", unique=True),
    Index("horae_reviews_object", "object_number", "state"),
    Index("horae_reviews_state", "owner", "state", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
rollbacks = Table(
    "horae_rollbacks",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", String(255), nullable=False),
    Column("rollback_id", String(150), nullable=False),
    Column("root_number", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("agent", String(100), nullable=False),
    Column("state", String(8), nullable=False),
    Column("walked_to", BigInteger, nullable=False),
    Column("found", Integer, nullable=False),
    Column("moved", Integer, nullable=False),
    Column("already_final", Integer, nullable=False),
    Column("job_id", BigInteger),
    Column("finished_at", BigInteger),
    Index("horae_rollbacks_name", "owner", "rollback_id", unique=True),
    Index("horae_rollbacks_root", "root_number"),
    Index("horae_rollbacks_state", "owner", "state", "agent"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

MESSAGE = "horae_audit is append-only: entries are neither changed nor deleted"
KEPT_JSON = ("state_before", "state_after", "evidence")
KEPT = ("id", "at", "actor", "verb", "object_type", "object_id", "owner", "reason", *KEPT_JSON)
CHANGE = "horae_audit_no_change"
NOT_PERMITTED = {"42501", 1044, 1142, 1143, 1227, 1370, 1419}


def changed(columns: Sequence[str], differs: str, json: str = "{}") -> str:
    """Return a condition: the entry is sealed already, or something else than its seal would change."""
    forms = [(name, json if name in KEPT_JSON else "{}") for name in columns]
    pairs = [differs.format(new=form.format(f"NEW.{name}"), old=form.format(f"OLD.{name}")) for name, form in forms]
    return " OR ".join(["OLD.chain_seq IS NOT NULL", "OLD.hash IS NOT NULL", *pairs])


def guard(columns: Sequence[str]) -> str:
    """Return the trigger that keeps entries from being changed."""
    vendor = op.get_bind().dialect.name
    if vendor == "sqlite":
        when, refuse = changed(columns, "{new} IS NOT {old}"), f"BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
        return f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit WHEN {when} {refuse}"
    if vendor == "postgresql":
        when = changed(columns, "{new} IS DISTINCT FROM {old}", "{}::text")
        return (
            f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit FOR EACH ROW WHEN ({when}) "
            "EXECUTE FUNCTION horae_audit_refuse()"
        )
    when = changed(columns, "NOT (BINARY {new} <=> BINARY {old})")
    refuse = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{MESSAGE}'"
    return (
        f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit FOR EACH ROW BEGIN IF {when} THEN {refuse}; END IF; END"
    )


def permitted(statement: str) -> None:
    """Execute a statement; leave it out where the role may not."""
    bind = op.get_bind()
    try:
        with bind.begin_nested() if bind.dialect.name == "postgresql" else nullcontext():
            bind.exec_driver_sql(statement)
    except DBAPIError as problem:
        number = problem.orig.args[0] if problem.orig is not None and problem.orig.args else None
        if getattr(problem.orig, "sqlstate", None) not in NOT_PERMITTED and number not in NOT_PERMITTED:
            raise


def drop_guard() -> None:
    permitted(f"DROP TRIGGER IF EXISTS {CHANGE}" + (" ON horae_audit" if is_postgres() else ""))


def is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for table in metadata.tables.values():
        known = {index["name"] for index in inspect(bind).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in known:
                index.create(bind)
    there = {column["name"] for column in inspect(bind).get_columns("horae_audit")}
    drop_guard()
    for name, kind in AUDIT.items():
        if name not in there:
            op.add_column("horae_audit", Column(name, kind))
    permitted(guard((*KEPT, *AUDIT)))
    if "agent" not in {column["name"] for column in inspect(bind).get_columns("horae_tokens")}:
        op.add_column("horae_tokens", Column("agent", String(100)))


def downgrade() -> None:
    """Forget objects and all about them; entries that have the new fields no longer verify."""
    op.execute("DELETE FROM horae_jobs WHERE id IN (SELECT job_id FROM horae_objects)")
    drop_guard()
    for name in AUDIT:
        op.drop_column("horae_audit", name)
    permitted(guard(KEPT))
    metadata.drop_all(op.get_bind())
    op.drop_column("horae_tokens", "agent")
