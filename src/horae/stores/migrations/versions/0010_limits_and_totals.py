"""Who says which limit, and how many runs were forgotten.

Revision ID: 0010
Revises: 0009

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, PrimaryKeyConstraint, String, Table, text

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}

limit_sources = Table(
    "horae_limit_sources",
    metadata,
    Column("name", String(255), nullable=False),
    Column("app", String(255), nullable=False),
    Column("source", String(8), nullable=False),
    Column("max_running", Integer),
    PrimaryKeyConstraint("name", "app"),
    **BYTEWISE,
)

run_totals = Table(
    "horae_run_totals",
    metadata,
    Column("scope", String(8), nullable=False),
    Column("name", String(255), nullable=False),
    Column("run_count", BigInteger, nullable=False),
    Column("fail_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "name"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    op.execute(  # until now every limit was set through a verb
        text(
            "INSERT INTO horae_limit_sources (name, app, source, max_running) "
            "SELECT name, '', 'api', max_running FROM horae_limits "
            "WHERE name NOT IN (SELECT name FROM horae_limit_sources)"
        )
    )


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
