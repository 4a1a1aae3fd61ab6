"""Locks, and the calls that rate limits count.

Revision ID: 0002
Revises: 0001

A frozen copy of the tables as they were then: a migration never follows later changes of ``tables.py``.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

metadata = MetaData()
Number = BigInteger().with_variant(Integer, "sqlite")
# Names are compared byte by byte, so that "A" and "a" are two keys on every database.
Name = String(255).with_variant(mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")

locks = Table(
    "horae_locks",
    metadata,
    Column("name", Name, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("holder", Name, nullable=False, server_default=""),
    mysql_charset="utf8mb4",
    mysql_engine="InnoDB",
)

# One row for each rate limit in use: the lock behind which its calls are counted.
rates = Table(
    "horae_rates",
    metadata,
    Column("name", Name, primary_key=True),
    mysql_charset="utf8mb4",
    mysql_engine="InnoDB",
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
    mysql_charset="utf8mb4",
    mysql_engine="InnoDB",
)


def upgrade() -> None:
    """May be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
