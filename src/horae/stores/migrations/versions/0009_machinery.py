"""Jobs of Horae's own move into a queue that nobody else may use.

Revision ID: 0009
Revises: 0008

Whoever had a queue of that name finds its jobs, schedules and settings in ``horae-own`` afterwards, and serves that.
History is left as it is: it may be long, and nothing follows from it.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect, text

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

INDEXES = {"horae_waits_state": ("horae_waits", "state"), "horae_tasks_live": ("horae_tasks", "state")}
# Where somebody's queue is named, and how it is named there.
NAMED = (
    ("horae_jobs", "queue", "horae"),
    ("horae_schedules", "queue", "horae"),
    ("horae_queues", "name", "horae"),
    ("horae_limits", "name", "queue:horae"),
    ("horae_slots", "name", "queue:horae"),
)
OURS = "handler IN ('attention.timeout', 'attention.start', 'attention.deadline')"
KEPT = (
    "SELECT job_id FROM horae_waits WHERE job_id IS NOT NULL",
    "SELECT start_job FROM horae_tasks WHERE start_job IS NOT NULL",
    "SELECT deadline_job FROM horae_tasks WHERE deadline_job IS NOT NULL",
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    for name, (table, column) in INDEXES.items():
        if name not in {index["name"] for index in inspect(bind).get_indexes(table)}:
            op.execute(text(f"CREATE INDEX {name} ON {table} ({column})"))
    for table, column, known in NAMED:
        theirs = f" AND NOT ({OURS})" if table == "horae_jobs" else ""
        op.execute(text(f"UPDATE {table} SET {column} = '{known}-own' WHERE {column} = '{known}'{theirs}"))
    for kept in KEPT:
        mine = f"queue = 'attention' AND {OURS} AND id IN ({kept})"
        op.execute(text(f"UPDATE horae_jobs SET queue = 'horae' WHERE {mine}"))


def downgrade() -> None:
    op.execute(text(f"UPDATE horae_jobs SET queue = 'attention' WHERE queue = 'horae' AND {OURS}"))
    for name, (table, _) in INDEXES.items():
        op.drop_index(name, table)
