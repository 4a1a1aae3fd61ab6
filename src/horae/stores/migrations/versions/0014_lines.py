"""What handlers log, kept with their attempts.

Revision ID: 0014_lines
Revises: 0013_quiet_queues

A frozen copy of the table as it was then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy.dialects.mysql import LONGTEXT

revision = "0014_lines"
down_revision = "0013_quiet_queues"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Number = BigInteger().with_variant(Integer, "sqlite")
LongText = Text().with_variant(LONGTEXT(), "mysql", "mariadb")
Table(
    "horae_lines",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("token", Number, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("content", LongText, nullable=False),
    Column("dropped", Integer, nullable=False, server_default="0"),
    Column("finished_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "token"),
    Index("horae_lines_finished", "finished_at"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(bind, checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
