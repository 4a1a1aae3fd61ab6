"""What is expected of schedules, and records of what was missed.

Revision ID: 0016_expectations
Revises: 0015_fair_shares

A frozen copy of the table as it was then.
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
    SmallInteger,
    String,
    Table,
    Text,
    inspect,
)

revision = "0016_expectations"
down_revision = "0015_fair_shares"
branch_labels = None
depends_on = None

BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Number = BigInteger().with_variant(Integer, "sqlite")
expectations = Table(
    "horae_expectations",
    MetaData(),
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("subject", String(40), nullable=False),
    Column("schedule_key", String(255), nullable=False),
    Column("owner", String(255), nullable=False),
    Column("handler", String(200), nullable=False),
    Column("queue", String(100), nullable=False),
    Column("expect", String(120), nullable=False),
    Column("expected_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("last_due_at", BigInteger, nullable=False),
    Column("found_at", BigInteger, nullable=False),
    Column("miss_count", Integer, nullable=False),
    Column("state", String(12), nullable=False),
    Column("ended_at", BigInteger),
    Column("reason", Text),
    Column("told", SmallInteger, nullable=False),
    Index("horae_expectations_due", "subject", "due_at", unique=True),
    Index("horae_expectations_state", "state", "ended_at"),
    Index("horae_expectations_owner", "owner", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
COLUMNS: dict[str, Any] = {
    "expect": String(120),
    "expected_since": BigInteger,
    "succeeded_at": BigInteger,
    "missed_at": BigInteger,
    "check_job": BigInteger,
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    expectations.create(bind, checkfirst=True)
    for index in expectations.indexes:
        index.create(bind, checkfirst=True)
    there = {column["name"] for column in inspect(bind).get_columns("horae_schedules")}
    for name, kind in COLUMNS.items():
        if name not in there:
            op.add_column("horae_schedules", Column(name, kind))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("horae_schedules", name)
    expectations.drop(op.get_bind(), checkfirst=True)
