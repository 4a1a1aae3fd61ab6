"""Jobs that come from the database of a caller's transaction, and databases of a cluster that keep no shards.

Revision ID: 0028_sent_jobs
Revises: 0027_serving

A frozen copy of the table as it was then. It stays empty where there is no cluster.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Index, MetaData, SmallInteger, Table, inspect

revision = "0028_sent_jobs"
down_revision = "0027_serving"
branch_labels = None
depends_on = None
older_code_serves = True  # it leaves jobs on the way alone; see stores/revisions.py

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_arrivals",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("created_at", BigInteger, nullable=False),
    Index("horae_arrivals_created", "created_at"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(bind, checkfirst=True)
    there = {column["name"] for column in inspect(bind).get_columns("horae_cluster_members")}
    if "takes_shards" not in there:
        op.add_column("horae_cluster_members", Column("takes_shards", SmallInteger, nullable=False, server_default="1"))


def downgrade() -> None:
    op.drop_column("horae_cluster_members", "takes_shards")
    metadata.drop_all(op.get_bind())
