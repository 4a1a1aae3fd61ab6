"""Locks, and the calls that rate limits count.

Revision ID: 0002
Revises: 0001

A frozen copy of the tables as they were then: a migration never follows later changes of ``tables.py``.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

metadata = MetaData()
Number = BigInteger().with_variant(Integer, "sqlite")
# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Name = String(255)

locks = Table(
    "horae_locks",
    metadata,
    Column("name", Name, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("holder", Name, nullable=False, server_default=""),
    **BYTEWISE,
)

# One row for each rate limit in use: the lock behind which its calls are counted.
rates = Table(
    "horae_rates",
    metadata,
    Column("name", Name, primary_key=True),
    **BYTEWISE,
)

calls = Table(
    "horae_calls",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("rate", Name, nullable=False),
    Column("ticket", String(64), nullable=False, unique=True),
    Column("state", String(8), nullable=False),  # made: at is its instant; waiting: at is how long it keeps its place
    Column("at", BigInteger, nullable=False),
    Index("horae_calls_rate", "rate", "state", "at"),
    **BYTEWISE,
)


def upgrade() -> None:
    """May be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(op.get_bind(), checkfirst=True)  # a table that was there already may still want its indexes


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
