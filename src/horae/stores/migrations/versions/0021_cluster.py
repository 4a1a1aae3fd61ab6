"""The map of a cluster.

Revision ID: 0021_cluster
Revises: 0018_outbox

A frozen copy of the tables as they were then. They stay empty where there is no cluster.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, SmallInteger, String, Table

revision = "0021_cluster"
down_revision = "0018_outbox"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_cluster",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("salt", String(64), nullable=False),
    Column("next_number", Integer, nullable=False),
    Column("drawn", BigInteger, nullable=False),
    **BYTEWISE,
)
Table(
    "horae_cluster_members",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String(40), nullable=False),
    Column("address", String(500), nullable=False),
    **BYTEWISE,
)
Table(
    "horae_vshards",
    metadata,
    Column("vshard", SmallInteger, primary_key=True, autoincrement=False),
    Column("place", Integer, nullable=False),
    Column("state", String(8), nullable=False),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
