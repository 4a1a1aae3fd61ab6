"""What the house's workers can run, and which of it is open to tenants.

Revision ID: 0012
Revises: 0011

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, MetaData, SmallInteger, String, Table, inspect, text

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}

definitions = Table(
    "horae_definitions",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("queue", String(100), nullable=False),
    Column("tenants", SmallInteger, nullable=False),
    Column("app", String(255), nullable=False),
    Column("stored_at", BigInteger, nullable=False),
    Column("stored_by", String(255), nullable=False),
    **BYTEWISE,
)
# MariaDB has no partial indexes; there horae_jobs_slots and horae_jobs_waiting serve the same statements.
PARTIAL_INDEXES = {
    "horae_jobs_closed": "held_for, id) WHERE (held = 'closed'",
    "horae_jobs_closed_owned": "owner, queue, band, run_at, id) WHERE (state = 'queued' AND held = 'closed'",
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    if bind.dialect.name in ("mysql", "mariadb"):
        return
    known = {index["name"] for index in inspect(bind).get_indexes("horae_jobs")}
    for name, columns in PARTIAL_INDEXES.items():
        if name not in known:
            op.execute(text(f"CREATE INDEX {name} ON horae_jobs ({columns})"))


def downgrade() -> None:
    """Hand held jobs back first: older code knows no such hold and would never release them."""
    bind = op.get_bind()
    op.execute(text("UPDATE horae_jobs SET held = '', held_for = NULL WHERE held = 'closed'"))
    known = {index["name"] for index in inspect(bind).get_indexes("horae_jobs")}
    for name in PARTIAL_INDEXES:
        if name in known:
            op.drop_index(name, "horae_jobs")
    metadata.drop_all(bind)
