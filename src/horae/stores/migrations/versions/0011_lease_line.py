"""The time line of leases on a host that several processes share: which boot it belongs to, and where it begins.

Revision ID: 0011
Revises: 0010

A frozen copy of the table as it was then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, MetaData, SmallInteger, String, Table

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}

lease_line = Table(
    "horae_lease_line",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("boot", String(64), nullable=False),
    Column("began_at", BigInteger, nullable=False),
    **BYTEWISE,
)


def upgrade() -> None:
    """May be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
