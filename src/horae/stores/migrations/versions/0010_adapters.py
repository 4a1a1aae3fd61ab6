"""Results of steps of an agent's tasks; checkpoints, sessions and documents of agent frameworks.

Revision ID: 0010_adapters
Revises: 0009_attention

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT
from sqlalchemy.dialects.postgresql import JSON

revision = "0010_adapters"
down_revision = "0009_attention"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Long = Text().with_variant(LONGTEXT(), "mysql", "mariadb")
Blob = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")
Json = Text().with_variant(LONGTEXT(), "mysql", "mariadb").with_variant(JSON(), "postgresql")
Number = BigInteger().with_variant(Integer, "sqlite")

Table(
    "horae_task_ledger",
    metadata,
    Column("task_id", Number, nullable=False),
    Column("scope", String(16), nullable=False),
    Column("name", String(255), nullable=False),
    Column("result", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("task_id", "scope", "name"),
    Index("horae_task_ledger_created", "created_at"),
    **BYTEWISE,
)
Table(
    "horae_checkpoints",
    metadata,
    Column("place", String(64), nullable=False),
    Column("checkpoint_id", String(64), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("thread_id", String(255), nullable=False),
    Column("namespace", Long, nullable=False),
    Column("parent_id", String(64)),
    Column("run_id", String(255)),
    Column("kind", String(32), nullable=False),
    Column("body", Blob, nullable=False),
    Column("about", Long, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("place", "checkpoint_id"),
    Index("horae_checkpoints_thread", "owner", "thread_id"),
    Index("horae_checkpoints_run", "owner", "run_id"),
    Index("horae_checkpoints_created", "created_at"),
    **BYTEWISE,
)
Table(
    "horae_checkpoint_writes",
    metadata,
    Column("place", String(64), nullable=False),
    Column("checkpoint_id", String(64), nullable=False),
    Column("task_id", String(64), nullable=False),
    Column("idx", Integer, nullable=False),
    Column("task_path", Long, nullable=False),
    Column("channel", Long, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("body", Blob, nullable=False),
    PrimaryKeyConstraint("place", "checkpoint_id", "task_id", "idx"),
    **BYTEWISE,
)
Table(
    "horae_session_items",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("session_id", String(255), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("item", Long, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "session_id", "position"),
    **BYTEWISE,
)
Table(
    "horae_documents",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("name", String(255), nullable=False),
    Column("body", Long, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "kind", "name"),
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
