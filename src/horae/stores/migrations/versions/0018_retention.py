"""How long runs of a queue or of an outcome are kept is stored.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, MetaData, PrimaryKeyConstraint, String, Table

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}

rules = Table(
    "horae_retention",
    metadata,
    Column("queue", String(100), nullable=False),
    Column("outcome", String(12), nullable=False),
    Column("keep_for", BigInteger, nullable=False),
    Column("stored_at", BigInteger),
    Column("stored_by", String(255), nullable=False),
    PrimaryKeyConstraint("queue", "outcome"),
    **BYTEWISE,
)

walks = Table(
    "horae_retention_walks",
    metadata,
    Column("keep_for", BigInteger, primary_key=True, autoincrement=False),
    Column("walked_until", BigInteger, nullable=False),
    **BYTEWISE,
)


def upgrade() -> None:
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
