"""Virtual shards on the way from one database of a cluster to another.

Revision ID: 0023_parcels
Revises: 0022_job_expectations

A frozen copy of the tables as they were then. They stay empty where there is no cluster.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, PrimaryKeyConstraint, SmallInteger, String, Table, Text
from sqlalchemy.dialects import mysql

revision = "0023_parcels"
down_revision = "0022_job_expectations"
branch_labels = None
depends_on = None

metadata = MetaData()
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_parcels",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("role", String(8), nullable=False),
    Column("source", Integer, nullable=False),
    Column("target", Integer, nullable=False),
    Column("vshards", Text, nullable=False),
    **BYTEWISE,
)
Table(
    "horae_parcel_rows",
    metadata,
    Column("parcel", String(32), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("content", LongText, nullable=False),
    PrimaryKeyConstraint("parcel", "seq"),
    **BYTEWISE,
)
Table(
    "horae_forwards",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("vshard", SmallInteger, nullable=False),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
