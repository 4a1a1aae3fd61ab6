"""Whose turn a chore is, and an index of the audit entries that are not sealed yet.

Revision ID: 0019
Revises: 0013
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, String, inspect

revision = "0019"
down_revision = "0013"
branch_labels = None
depends_on = None

NAME = String(255)
# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
INDEX = "horae_audit_unsealed"


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
    partial = op.get_bind().dialect.name in ("sqlite", "postgresql")
    if partial and INDEX not in {each["name"] for each in look.get_indexes("horae_audit")}:
        op.execute(f"CREATE INDEX {INDEX} ON horae_audit (id) WHERE chain_seq IS NULL")


def downgrade() -> None:
    if op.get_bind().dialect.name in ("sqlite", "postgresql"):
        op.drop_index(INDEX, "horae_audit")
    op.drop_table("horae_chores")
