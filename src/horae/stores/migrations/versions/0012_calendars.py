"""Calendars; quiet hours and a calendar of a schedule; pauses that end by themselves.

Revision ID: 0012_calendars
Revises: 0011_batches
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, inspect
from sqlalchemy.dialects import mysql, postgresql

revision = "0012_calendars"
down_revision = "0011_batches"
branch_labels = None
depends_on = None

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
calendars = Table(
    "horae_calendars",
    MetaData(),
    Column("name", String(100), primary_key=True),
    Column("days", Json, nullable=False),
    Column("title", String(255)),
    Column("version", Integer, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    **BYTEWISE,
)
COLUMNS: dict[str, dict[str, Any]] = {
    "horae_schedules": {
        "paused_until": BigInteger,
        "quiet_hours": String(200),
        "calendar": String(100),
        "calendar_rule": String(8),
        "calendar_days": Json,
    },
    "horae_queues": {"paused_until": BigInteger},
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    connection = op.get_bind()
    calendars.create(connection, checkfirst=True)
    for table, columns in COLUMNS.items():
        there = {column["name"] for column in inspect(connection).get_columns(table)}
        for name, kind in columns.items():
            if name not in there:
                op.add_column(table, Column(name, kind))


def downgrade() -> None:
    for table, columns in COLUMNS.items():
        for name in columns:
            op.drop_column(table, name)
    calendars.drop(op.get_bind(), checkfirst=True)
