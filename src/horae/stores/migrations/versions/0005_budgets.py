"""Budgets, what each period has used of them, and what attempts have reserved; jobs and schedules say who pays.

Revision ID: 0005_budgets
Revises: 0004_views_and_workers

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    inspect,
)
from sqlalchemy.dialects import mysql, postgresql

revision = "0005_budgets"
down_revision = "0004_views_and_workers"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Number = BigInteger().with_variant(Integer, "sqlite")
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
Json = LongText.with_variant(postgresql.JSON(), "postgresql")
COLUMNS: dict[str, dict[str, Any]] = {
    "horae_jobs": {"budget": Json},
    "horae_runs": {"budget": Json},
    "horae_schedules": {"budget": String(255), "cost": Json},
}

Table(
    "horae_budgets",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", String(255), nullable=False),
    Column("name", String(100), nullable=False),
    Column("agent", String(100), nullable=False),
    Column("unit", String(8), nullable=False),
    Column("period", String(8), nullable=False),
    Column("capacity", BigInteger),
    Column("created_at", BigInteger),
    Column("changed_at", BigInteger),
    Column("changed_by", String(255), nullable=False),
    Index("horae_budgets_name", "owner", "name", "agent", "unit", "period", unique=True),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
Table(
    "horae_budget_periods",
    metadata,
    Column("budget_id", BigInteger, nullable=False),
    Column("starts_at", BigInteger, nullable=False),
    Column("capacity", BigInteger),
    Column("settled", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("overdrawn", BigInteger, nullable=False),
    Column("put_backs", Integer, nullable=False),
    PrimaryKeyConstraint("budget_id", "starts_at"),
    CheckConstraint("settled >= 0 AND reserved >= 0", name="horae_budget_periods_sign"),
    CheckConstraint(
        "capacity IS NULL OR overdrawn > 0 OR settled + reserved <= capacity", name="horae_budget_periods_capacity"
    ),
    **BYTEWISE,
)
Table(
    "horae_reservations",
    metadata,
    Column("job_id", BigInteger, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("step", String(200), nullable=False),
    Column("budget_id", BigInteger, nullable=False),
    Column("starts_at", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("state", String(8), nullable=False),
    Column("spent", BigInteger),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "token", "step", "budget_id", "starts_at"),
    Index("horae_reservations_period", "budget_id", "starts_at", "state"),
    Index("horae_reservations_state", "state", "at"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(bind, checkfirst=True)
    for table, columns in COLUMNS.items():
        there = {column["name"] for column in inspect(bind).get_columns(table)}
        for name, kind in columns.items():
            if name not in there:
                op.add_column(table, Column(name, kind))


def downgrade() -> None:
    """Forget budgets: jobs that drew on one run without a limit."""
    for table, columns in COLUMNS.items():
        for name in columns:
            op.drop_column(table, name)
    metadata.drop_all(op.get_bind())
