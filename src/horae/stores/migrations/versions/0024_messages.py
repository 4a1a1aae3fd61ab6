"""What the databases of a cluster tell each other about jobs that wait for others.

Revision ID: 0024_messages
Revises: 0023_parcels

A frozen copy of the tables as they were then. They stay empty where there is no cluster.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
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

revision = "0024_messages"
down_revision = "0023_parcels"
branch_labels = None
depends_on = None

metadata = MetaData()
Number = BigInteger().with_variant(Integer, "sqlite")
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_asks",
    metadata,
    Column("needed_id", Number, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("state", String(8), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("needed_id", "job_id"),
    Index("horae_asks_state", "state"),
    **BYTEWISE,
)
Table(
    "horae_messages",
    metadata,
    Column("kind", String(8), nullable=False),
    Column("sender", Number, nullable=False),
    Column("receiver", Number, nullable=False),
    Column("vshard", SmallInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("content", LongText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    PrimaryKeyConstraint("kind", "sender", "receiver"),
    Index("horae_messages_vshard", "vshard", "due_at"),
    **BYTEWISE,
)
Table(
    "horae_answers",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("parent_id", Number, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("handler", String(255)),
    Column("result", LongText),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "parent_id"),
    Index("horae_answers_created", "created_at"),
    **BYTEWISE,
)
Table(
    "horae_followers",
    metadata,
    Column("followed_id", Number, nullable=False),
    Column("schedule_id", Number, nullable=False),
    Column("name", String(255), nullable=False),
    Column("alias", BigInteger, nullable=False),
    Column("vshard", SmallInteger, nullable=False),
    Column("is_on", SmallInteger, nullable=False),
    Column("asked", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    PrimaryKeyConstraint("followed_id", "schedule_id"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(bind, checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
