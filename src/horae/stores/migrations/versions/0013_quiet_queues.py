"""Quiet hours of queues.

Revision ID: 0013_quiet_queues
Revises: 0012_calendars
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, String, inspect

revision = "0013_quiet_queues"
down_revision = "0012_calendars"
branch_labels = None
depends_on = None

COLUMNS: dict[str, Any] = {"quiet_hours": String(200), "quiet_zone": String(64), "quiet_since": BigInteger}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    there = {column["name"] for column in inspect(op.get_bind()).get_columns("horae_queues")}
    for name, kind in COLUMNS.items():
        if name not in there:
            op.add_column("horae_queues", Column(name, kind))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("horae_queues", name)
