"""Whose turn a chore is, and indexes of the audit entries and journal lines that are not sealed yet.

Revision ID: 0019
Revises: 0013
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, String, inspect

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

NAME = String(255)
# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
INDEXES = {
    "horae_audit_unsealed": ("horae_audit", "(id) WHERE chain_seq IS NULL"),
    "horae_journal_unsealed": ("horae_journal", "(lane_id) WHERE hash IS NULL"),
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    look = inspect(op.get_bind())
    if not look.has_table("horae_chores"):
        op.create_table(
            "horae_chores",
            Column("name", NAME, primary_key=True),
            Column("due_at", BigInteger, nullable=False),
            Column("leased_until", BigInteger, nullable=False, server_default="0"),
            Column("token", String(64), nullable=False, server_default=""),
            Column("holder", NAME, nullable=False, server_default=""),
            Column("done_at", BigInteger),
            **BYTEWISE,
        )
    for name, (table, rows) in INDEXES.items() if op.get_bind().dialect.name in ("sqlite", "postgresql") else ():
        if name not in {each["name"] for each in look.get_indexes(table)}:
            op.execute(f"CREATE INDEX {name} ON {table} {rows}")
    if op.get_bind().dialect.name == "postgresql":
        # A sealed entry stays in that index until the next vacuum, and every look at the store has to pass it.
        op.execute("ALTER TABLE horae_audit SET (autovacuum_vacuum_scale_factor = 0.02)")


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE horae_audit RESET (autovacuum_vacuum_scale_factor)")
    if op.get_bind().dialect.name in ("sqlite", "postgresql"):
        for name, (table, _) in INDEXES.items():
            op.drop_index(name, table)
    op.drop_table("horae_chores")
