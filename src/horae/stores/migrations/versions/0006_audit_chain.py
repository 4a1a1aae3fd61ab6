"""The audit as a chain: each entry holds those before it in place.

Revision ID: 0006
Revises: 0005

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, MetaData, String, Table, inspect, text

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}

chains = Table(
    "horae_chains",
    metadata,
    Column("owner", String(255), primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    **BYTEWISE,
)
COLUMNS: dict[str, Column[Any]] = {"chain_seq": Column("chain_seq", BigInteger), "hash": Column("hash", String(64))}
INDEX = "horae_audit_chain"


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    known = {column["name"] for column in inspect(bind).get_columns("horae_audit")}
    for name, column in COLUMNS.items():
        if name not in known:
            op.add_column("horae_audit", column)
    if INDEX not in {index["name"] for index in inspect(bind).get_indexes("horae_audit")}:
        op.execute(text(f"CREATE INDEX {INDEX} ON horae_audit (chain_seq, id)"))


def downgrade() -> None:
    op.drop_index(INDEX, "horae_audit")
    for name in COLUMNS:
        op.drop_column("horae_audit", name)
    metadata.drop_all(op.get_bind())
