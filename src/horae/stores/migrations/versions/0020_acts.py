"""Bulk acts, and the former times of the jobs that they moved.

Revision ID: 0020
Revises: 0013

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
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    inspect,
)
from sqlalchemy.dialects import mysql, postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Number = BigInteger().with_variant(Integer, "sqlite")
Json = (
    Text()
    .with_variant(postgresql.JSON(), "postgresql")
    .with_variant(mysql.LONGTEXT(), "mysql")
    .with_variant(mysql.LONGTEXT(), "mariadb")
)

acts = Table(
    "horae_acts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("verb", String(12), nullable=False),
    Column("state", String(12), nullable=False),
    Column("wanted", Text, nullable=False),
    Column("highest", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("queues", Json),
    Column("reason", Text, nullable=False),
    Column("run_at", BigInteger),
    Column("undoes", BigInteger),
    Column("job_id", BigInteger),
    Column("matched", Integer, nullable=False),
    Column("more", SmallInteger, nullable=False),
    Column("changed", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("kept", Integer, nullable=False),
    Column("skipped_for", Json, nullable=False),
    Column("sample", Json, nullable=False),
    Column("finished_at", BigInteger),
    Index("horae_acts_owner", "owner", "id"),
    Index("horae_acts_state", "state", "finished_at"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
act_moves = Table(
    "horae_act_moves",
    metadata,
    Column("act_id", Number, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("run_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("act_id", "job_id"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    known = {index["name"] for index in inspect(bind).get_indexes("horae_acts")}
    for index in acts.indexes:
        if index.name not in known:
            index.create(bind)


def downgrade() -> None:
    """End the jobs that work on acts first: older code has no handler for them."""
    op.execute("DELETE FROM horae_jobs WHERE queue = 'horae' AND handler = 'acts.batch'")
    metadata.drop_all(op.get_bind())
