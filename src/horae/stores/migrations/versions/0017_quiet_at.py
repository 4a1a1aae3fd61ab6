"""When the quiet hours of a queue begin or end next, so that claims heed them by themselves; quiet hours of owners.

Revision ID: 0017_quiet_at
Revises: 0016_expectations
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, MetaData, String, Table, inspect, text

revision = "0017_quiet_at"
down_revision = "0016_expectations"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_quiet_owners",
    metadata,
    Column("owner", String(255), primary_key=True),
    Column("quiet_hours", String(200), nullable=False),
    Column("quiet_zone", String(64), nullable=False),
    Column("quiet_since", BigInteger),
    Column("quiet_at", BigInteger),
    Column("quiet_until", BigInteger),
    **BYTEWISE,
)
KEEPERS = (
    "SELECT payload, run_at FROM horae_jobs WHERE queue = 'horae' AND state = 'queued' AND handler = 'queue.quiet'"
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    there = {column["name"] for column in inspect(bind).get_columns("horae_queues")}
    if "quiet_at" not in there:
        op.add_column("horae_queues", Column("quiet_at", BigInteger))
    metadata.create_all(bind, checkfirst=True)
    keep = text("UPDATE horae_queues SET quiet_at = :at WHERE name = :name AND quiet_since = :since")
    for payload, run_at in bind.execute(text(KEEPERS)).all():
        terms = payload if isinstance(payload, dict) else json.loads(payload)
        bind.execute(keep, {"at": run_at, "name": terms["queue"], "since": _micros(terms["since"])})


def _micros(moment: str) -> int:
    since = datetime.fromisoformat(moment.replace("Z", "+00:00")) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
    op.drop_column("horae_queues", "quiet_at")
