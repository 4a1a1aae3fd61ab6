"""Jobs that wait for others: what to do when one of those never succeeds, and how far that has been done.

Revision ID: 0008
Revises: 0007

Children of jobs that are dead or were cancelled have waited for ever so far; they are marked, and the first worker that
starts deals with them as it does with new ones.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Column, Integer, String, inspect, text

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INDEX = "horae_needs_state"


def columns() -> list[Column[Any]]:
    """The new columns; made anew each time, because a column belongs to one operation."""
    return [
        Column("policy", String(8), nullable=False, server_default="cancel"),
        Column("state", String(8), nullable=False, server_default="open"),
        Column("concurrency_limit", Integer, nullable=False, server_default="1"),
    ]


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    known = {column["name"] for column in inspect(bind).get_columns("horae_needs")}
    for column in columns():
        if column.name not in known:
            op.add_column("horae_needs", column)
    if INDEX not in {index["name"] for index in inspect(bind).get_indexes("horae_needs")}:
        op.execute(text(f"CREATE INDEX {INDEX} ON horae_needs (state)"))
    op.execute(
        text(
            "UPDATE horae_needs SET concurrency_limit = (SELECT concurrency_limit FROM horae_jobs "
            "WHERE horae_jobs.id = horae_needs.job_id) WHERE EXISTS (SELECT 1 FROM horae_jobs "
            "WHERE horae_jobs.id = horae_needs.job_id)"
        )
    )
    waits = "EXISTS (SELECT 1 FROM horae_jobs WHERE horae_jobs.id = horae_needs.job_id)"
    op.execute(text(f"DELETE FROM horae_needs WHERE NOT {waits}"))
    op.execute(
        text(
            "UPDATE horae_needs SET state = 'failed' WHERE state = 'open' AND NOT EXISTS (SELECT 1 FROM horae_jobs "
            "WHERE horae_jobs.id = horae_needs.needed_id AND horae_jobs.state IN ('queued', 'running'))"
        )
    )


def downgrade() -> None:
    op.drop_index(INDEX, "horae_needs")
    for column in columns():
        op.drop_column("horae_needs", str(column.name))
