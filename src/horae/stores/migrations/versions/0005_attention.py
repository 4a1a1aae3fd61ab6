"""Attention: lanes, tasks, waits, events, facts, journal.

Revision ID: 0005
Revises: 0004

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

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
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

metadata = MetaData()


class Json(UserDefinedType[str]):
    """JSON kept as the text it came as."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"


@compiles(Json, "sqlite")
def _json_is_text_on_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"


@compiles(Json, "mysql")
@compiles(Json, "mariadb")
def _json_is_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"  # MariaDB's JSON is that and a check that refuses more than 32 levels; MySQL's changes the text


# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Name = String(255)
Number = BigInteger().with_variant(Integer, "sqlite")
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")

# One agent's attention: every change of a lane happens behind the lock of its row.
lanes = Table(
    "horae_lanes",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", Name, nullable=False),
    Column("name", String(200), nullable=False),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("driver", String(200)),
    Column("leased_until", BigInteger),
    Column("seq", BigInteger, nullable=False, server_default="0"),
    Column("override", Json),
    Column("rules", Json),
    Column("created_at", BigInteger, nullable=False),
    Index("horae_lanes_name", "owner", "name", unique=True),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

tasks = Table(
    "horae_tasks",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("kind", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("focus", BigInteger, unique=True),  # the lane while it runs, else empty: two at once are impossible
    Column("base", SmallInteger, nullable=False),
    Column("payload", LongText, nullable=False),
    Column("phase", String(8), nullable=False),
    Column("context", LongText),
    Column("note", Text),
    Column("task_key", Name),
    Column("created_at", BigInteger, nullable=False),
    Column("start_at", BigInteger),
    Column("ready_since", BigInteger),
    Column("due_by", BigInteger),
    Column("expires_at", BigInteger),
    Column("place", Integer),
    Column("turn", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("intent", LongText),
    Column("effect", String(16)),
    Column("holds", SmallInteger, nullable=False),
    Column("held_since", BigInteger),
    Column("cancel_requested", SmallInteger, nullable=False),
    Column("clean_up", Integer),
    Column("errors", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("result", LongText),
    Column("reason", Text),
    Column("start_job", BigInteger),
    Column("deadline_job", BigInteger),
    CheckConstraint("(state = 'running') = (focus IS NOT NULL)", name="horae_tasks_focus"),
    Index("horae_tasks_state", "lane_id", "state"),
    Index("horae_tasks_key", "lane_id", "task_key", unique=True),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

waits = Table(
    "horae_waits",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("wait_key", String(200), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("state", String(12), nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("job_id", BigInteger),
    Column("closed_at", BigInteger),
    Column("event", BigInteger),
    Column("intent", LongText),
    Column("intent_hash", String(64)),
    Column("grant_key", String(64)),
    Column("granted_at", BigInteger),
    Column("used_at", BigInteger),
    Column("decided_by", Name),
    Index("horae_waits_key", "lane_id", "wait_key", "state"),
    Index("horae_waits_task", "task_id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

events = Table(
    "horae_events",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("event_key", String(200), nullable=False),
    Column("event_id", Name),
    Column("state", String(8), nullable=False),
    Column("data", LongText, nullable=False),
    Column("posted_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("reason", Text),
    Column("task_id", BigInteger),
    Column("actor", Name, nullable=False),
    Index("horae_events_id", "lane_id", "event_id", unique=True),
    Index("horae_events_key", "lane_id", "event_key", "state", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

facts = Table(
    "horae_facts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("kind", String(24), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("data", LongText, nullable=False),
    Column("turn", Integer),
    Index("horae_facts_task", "task_id", "turn", "id"),
    Index("horae_facts_lane", "lane_id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

journal = Table(
    "horae_journal",
    metadata,
    Column("lane_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("cause", String(40), nullable=False),
    Column("task_id", BigInteger),
    Column("state_before", String(12)),
    Column("state_after", String(12)),
    Column("changes", LongText, nullable=False),
    Column("told", LongText, nullable=False),
    Column("control", String(64), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("hash", String(64)),
    PrimaryKeyConstraint("lane_id", "seq"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
