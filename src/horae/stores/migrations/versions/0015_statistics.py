"""Statistics of endings, rolled up by minute, hour and day.

Revision ID: 0015
Revises: 0013

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
COUNTS = (
    "seen", "runs", "succeeded", "failed", "retried", "dead", "cancelled", "lost", "recovered", "duration_sum",
    "delay_sum",
)  # fmt: skip
INSTANTS = (
    "version", "rolled_until", "ended_until", "checked_until", "check_at", "sampled_at", "minutes_from", "hours_from",
    "days_from", "last_number",
)  # fmt: skip

stats = Table(
    "horae_stats",
    metadata,
    Column("grain", String(6), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("scope", String(8), nullable=False),
    Column("name", String(255), nullable=False),
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in COUNTS),
    Column("durations", Text, nullable=False),
    Column("delays", Text, nullable=False),
    Column("depth", Integer),
    PrimaryKeyConstraint("grain", "at", "scope", "name"),
    Index("horae_stats_series", "grain", "scope", "name", "at"),
    **BYTEWISE,
)

roll_up = Table(
    "horae_roll_up",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False) for name in INSTANTS),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    for index in (each for table in metadata.sorted_tables for each in table.indexes):
        index.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
