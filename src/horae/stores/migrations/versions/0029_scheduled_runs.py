"""The index of runs by schedule holds scheduled runs only, so that other endings need not be entered there.

Revision ID: 0029_scheduled_runs
Revises: 0028_sent_jobs

MariaDB has no partial indexes: there it stays as it is.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0029_scheduled_runs"
down_revision = "0028_sent_jobs"
branch_labels = None
depends_on = None
older_code_serves = True  # its statements are the same with either index; see stores/revisions.py
serves_without = True

COLUMNS = "ON horae_runs (schedule_id, job_id)"


def upgrade() -> None:
    _index(" WHERE schedule_id IS NOT NULL")


def downgrade() -> None:
    _index("")


def _index(condition: str) -> None:
    """Every step may be repeated: a migration may have stopped halfway.

    PostgreSQL makes the new index beside the old one: endings wait for it, reads and claims go on. What deletes old
    runs is kept out before: it reads them first and would wait for this transaction, and this one for it.
    """
    bind = op.get_bind()
    if bind.dialect.name == "postgresql":
        bind.execute(text("SELECT name FROM horae_counted_partitions WHERE name = 'lock' FOR UPDATE"))
        bind.execute(text("DROP INDEX IF EXISTS horae_runs_schedule_new"))
        bind.execute(text(f"CREATE INDEX horae_runs_schedule_new {COLUMNS}{condition}"))
        bind.execute(text("DROP INDEX IF EXISTS horae_runs_schedule"))
        bind.execute(text("ALTER INDEX horae_runs_schedule_new RENAME TO horae_runs_schedule"))
    elif bind.dialect.name == "sqlite":
        bind.execute(text("DROP INDEX IF EXISTS horae_runs_schedule"))
        bind.execute(text(f"CREATE INDEX horae_runs_schedule {COLUMNS}{condition}"))
