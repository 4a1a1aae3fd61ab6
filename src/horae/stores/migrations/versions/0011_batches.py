"""Batches of jobs with callbacks, and the parents of a job, whose results it may read.

Revision ID: 0011_batches
Revises: 0010_adapters

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, PrimaryKeyConstraint, String, Table, Text

revision = "0011_batches"
down_revision = "0010_adapters"
branch_labels = None
depends_on = None

metadata = MetaData()
NUMBER = BigInteger().with_variant(Integer, "sqlite")
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_batches",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),
    Column("state", String(12), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("total", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("idempotency_key", String(255)),
    Column("request_hash", String(64), nullable=False),
    Column("ended_at", BigInteger),
    Column("cancel_reason", Text),
    Column("on_end", BigInteger),
    Column("on_success", BigInteger),
    Column("on_failure", BigInteger),
    Index("horae_batches_owner", "owner", "id"),
    Index("horae_batches_state", "state", "ended_at"),
    Index("horae_batches_key", "owner", "idempotency_key", unique=True),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
Table(
    "horae_batch_jobs",
    metadata,
    Column("batch_id", NUMBER, nullable=False),
    Column("job_id", NUMBER, nullable=False),
    Column("state", String(12), nullable=False),
    PrimaryKeyConstraint("batch_id", "job_id"),
    Index("horae_batch_jobs_job", "job_id"),
    Index("horae_batch_jobs_state", "batch_id", "state"),
    **BYTEWISE,
)
Table(
    "horae_parents",
    metadata,
    Column("job_id", NUMBER, nullable=False),
    Column("parent_id", NUMBER, nullable=False),
    Column("position", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "parent_id"),
    Index("horae_parents_created", "created_at"),
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
