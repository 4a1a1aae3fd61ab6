"""Groups of errors by fingerprint; nodes say which release of the application they run.

Revision ID: 0016
Revises: 0015

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Index, MetaData, PrimaryKeyConstraint, String, Table, Text, inspect

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}

error_groups = Table(
    "horae_error_groups",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("handler", String(200), nullable=False),
    Column("kind", String(255), nullable=False),
    Column("title", Text, nullable=False),
    Column("raised_in", String(255), nullable=False),
    Column("message", Text, nullable=False),
    Column("error_count", BigInteger, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("sample_job", BigInteger, nullable=False),
    Column("sample_token", BigInteger, nullable=False),
    Column("first_release", String(100)),
    Column("last_release", String(100)),
    Column("muted_at", BigInteger),
    Column("muted_until", BigInteger),
    Column("muted_by", String(255)),
    Column("mute_reason", Text),
    PrimaryKeyConstraint("owner", "fingerprint"),
    Index("horae_error_groups_seen", "last_seen", "owner", "fingerprint"),
    Index("horae_error_groups_owner", "owner", "last_seen", "fingerprint"),
    **BYTEWISE,
)

error_counts = Table(
    "horae_error_counts",
    metadata,
    Column("grain", String(6), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("owner", String(255), nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("error_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("grain", "at", "owner", "fingerprint"),
    Index("horae_error_counts_group", "owner", "fingerprint", "grain", "at"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    for index in (each for table in metadata.sorted_tables for each in table.indexes):
        index.create(op.get_bind(), checkfirst=True)
    if "app_release" not in {column["name"] for column in inspect(op.get_bind()).get_columns("horae_nodes")}:
        op.add_column("horae_nodes", Column("app_release", String(100)))


def downgrade() -> None:
    op.drop_column("horae_nodes", "app_release")
    metadata.drop_all(op.get_bind())
