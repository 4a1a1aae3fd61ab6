"""Copies of the house's settings in every database of a cluster.

Revision ID: 0025_settings
Revises: 0024_messages

A frozen copy of the table as it was then. It stays empty where there is no cluster.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, PrimaryKeyConstraint, String, Table, Text
from sqlalchemy.dialects import mysql, postgresql

revision = "0025_settings"
down_revision = "0024_messages"
branch_labels = None
depends_on = None

metadata = MetaData()
Json = (
    Text()
    .with_variant(postgresql.JSON(), "postgresql")
    .with_variant(mysql.LONGTEXT(), "mysql")
    .with_variant(mysql.LONGTEXT(), "mariadb")
)
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_settings",
    metadata,
    Column("kind", String(20), nullable=False),
    Column("name", String(255), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("decided_in", Integer, nullable=False),
    Column("value", Json, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("reason", Text, nullable=False),
    Column("applied", String(20), nullable=False),
    PrimaryKeyConstraint("kind", "name"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
