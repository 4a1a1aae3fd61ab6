"""Definitions say which budget tenants' jobs draw on.

Revision ID: 0006_definition_budgets
Revises: 0005_budgets
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text, inspect
from sqlalchemy.dialects import mysql, postgresql

revision = "0006_definition_budgets"
down_revision = "0005_budgets"
branch_labels = None
depends_on = None

LongText = Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
Json = LongText.with_variant(postgresql.JSON(), "postgresql")


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("horae_definitions")}
    if "budget" not in there:
        op.add_column("horae_definitions", Column("budget", Json))


def downgrade() -> None:
    op.drop_column("horae_definitions", "budget")
