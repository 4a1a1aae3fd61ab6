"""Queues that are shared fairly between owners, and the owners' weights.

Revision ID: 0015_fair_shares
Revises: 0014_lines
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, String, inspect

revision = "0015_fair_shares"
down_revision = "0014_lines"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    for table, column in columns().items():
        if column.name not in {each["name"] for each in inspect(op.get_bind()).get_columns(table)}:
            op.add_column(table, column)


def downgrade() -> None:
    for table, column in columns().items():
        op.drop_column(table, column.name)


def columns() -> dict[str, Column[object]]:
    return {
        "horae_queues": Column("fair", String(12)),
        "horae_owners": Column("weight", Integer, nullable=False, server_default="1"),
    }
