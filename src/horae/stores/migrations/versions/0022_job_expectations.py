"""What is expected of single jobs: which job of Horae's own looks after it.

Revision ID: 0022_job_expectations
Revises: 0021_cluster
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, inspect

revision = "0022_job_expectations"
down_revision = "0021_cluster"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """It may be repeated: a database without transactional DDL may have stopped halfway."""
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("horae_expectations")}
    if "check_job" not in there:
        op.add_column("horae_expectations", Column("check_job", BigInteger))


def downgrade() -> None:
    op.drop_column("horae_expectations", "check_job")
