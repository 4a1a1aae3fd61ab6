"""Jobs that were made by running another one again say which.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, inspect

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TABLES = ("horae_jobs", "horae_runs")


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    for table in TABLES:
        if "rerun_of" not in {column["name"] for column in inspect(op.get_bind()).get_columns(table)}:
            op.add_column(table, Column("rerun_of", BigInteger()))


def downgrade() -> None:
    for table in TABLES:
        op.drop_column(table, "rerun_of")
