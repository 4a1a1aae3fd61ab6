"""The oldest code that works with these tables, beside their revision.

Revision ID: 0026_revisions
Revises: 0025_settings
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, String, inspect

revision = "0026_revisions"
down_revision = "0025_settings"
branch_labels = None
depends_on = None
older_code_serves = True  # see stores/revisions.py
serves_without = True


def upgrade() -> None:
    """It may be repeated: a database without transactional DDL may have stopped halfway."""
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("horae_version")}
    if "oldest" not in there:
        op.add_column("horae_version", Column("oldest", String(32)))


def downgrade() -> None:
    op.drop_column("horae_version", "oldest")
