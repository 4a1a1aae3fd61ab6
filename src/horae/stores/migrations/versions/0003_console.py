"""Sessions of browsers, and one-time login codes.

Revision ID: 0003_console
Revises: 0002_governance

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Index, MetaData, String, Table, Text, inspect
from sqlalchemy.dialects import mysql, postgresql

revision = "0003_console"
down_revision = "0002_governance"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Json = (
    Text()
    .with_variant(postgresql.JSON(), "postgresql")
    .with_variant(mysql.LONGTEXT(), "mysql")
    .with_variant(mysql.LONGTEXT(), "mariadb")
)

sessions = Table(
    "horae_sessions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("scopes", Json, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("queues", Json, nullable=False),
    Column("token_id", String(32)),
    Column("address", String(64)),
    Index("horae_sessions_seen", "seen_at", "id"),
    **BYTEWISE,
)
login_codes = Table(
    "horae_login_codes",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("token_id", String(32), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    known = {index["name"] for index in inspect(bind).get_indexes("horae_sessions")}
    for index in sessions.indexes:
        if index.name not in known:
            index.create(bind)


def downgrade() -> None:
    """Everybody logs in again afterwards."""
    metadata.drop_all(op.get_bind())
