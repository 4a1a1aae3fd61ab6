"""Which workers serve a database of a cluster, by queue, and which databases a bulk act is to reach.

Revision ID: 0027_serving
Revises: 0026_revisions

The table stays empty where there is no cluster.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, MetaData, PrimaryKeyConstraint, SmallInteger, String, Table, Text, inspect
from sqlalchemy.dialects import mysql, postgresql

revision = "0027_serving"
down_revision = "0026_revisions"
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
    "horae_serving",
    metadata,
    Column("queue", String(100), nullable=False),
    Column("worker", String(255), nullable=False),
    Column("leased_until", BigInteger, nullable=False),
    Column("is_chosen", SmallInteger, nullable=False),
    PrimaryKeyConstraint("queue", "worker"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("horae_acts")}
    if "parts" not in there:
        op.add_column("horae_acts", Column("parts", Json))


def downgrade() -> None:
    op.drop_column("horae_acts", "parts")
    metadata.drop_all(op.get_bind())
