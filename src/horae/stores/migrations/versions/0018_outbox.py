"""The outbox of a message bus.

Revision ID: 0018_outbox
Revises: 0017_quiet_at

A frozen copy of the tables as they were then. The triggers that fill it are made when the bus is switched on.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, SmallInteger, String, Table

revision = "0018_outbox"
down_revision = "0017_quiet_at"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Number = BigInteger().with_variant(Integer, "sqlite")
Table(
    "horae_outbox",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("kind", String(12), nullable=False),
    Column("happened_at", BigInteger, nullable=False),
    Column("job_id", BigInteger),
    Column("token", BigInteger),
    Column("queue", String(100)),
    Column("handler", String(200)),
    Column("owner", String(255)),
    Column("outcome", String(12)),
    Column("state", String(12)),
    Column("attempt", Integer),
    Column("schedule_key", String(255)),
    Column("fire_at", BigInteger),
    Column("trace_id", String(64)),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
Table(
    "horae_bus",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("source", String(32), nullable=False),
    Column("enabled", SmallInteger, nullable=False),
    Column("switched_at", BigInteger, nullable=False),
    Column("actor", String(255), nullable=False),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
