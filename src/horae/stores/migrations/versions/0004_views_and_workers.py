"""Saved views; what workers report and were asked to do; what handlers take, and what of it readers must not see.

Revision ID: 0004_views_and_workers
Revises: 0003_console
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    inspect,
)
from sqlalchemy.dialects import mysql, postgresql

revision = "0004_views_and_workers"
down_revision = "0003_console"
branch_labels = None
depends_on = None

Json = (
    Text()
    .with_variant(postgresql.JSON(), "postgresql")
    .with_variant(mysql.LONGTEXT(), "mysql")
    .with_variant(mysql.LONGTEXT(), "mariadb")
)
metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
views = Table(
    "horae_views",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("owner", String(255), nullable=False),
    Column("author", String(255), nullable=False),
    Column("room", String(20), nullable=False),
    Column("name", String(100), nullable=False),
    Column("wanted", Text, nullable=False),
    Column("shared", SmallInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("horae_views_name", "owner", "author", "room", "name", unique=True),
    sqlite_autoincrement=True,
    **BYTEWISE,
)
COLUMNS: dict[str, dict[str, Any]] = {
    "horae_nodes": {
        "busy": Json,
        "loop_lag": BigInteger,
        "memory": BigInteger,
        "drain": String(8),
        "drain_at": BigInteger,
        "drain_by": String(255),
        "drain_reason": Text,
    },
    "horae_definitions": {"sensitive_names": Json, "parameters": Json, "description": Text},
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    look = inspect(op.get_bind())
    for table, columns in COLUMNS.items():
        known = {each["name"] for each in look.get_columns(table)}
        for name, kind in columns.items():
            if name not in known:
                op.add_column(table, Column(name, kind))
    metadata.create_all(op.get_bind(), checkfirst=True)
    made = {each["name"] for each in inspect(op.get_bind()).get_indexes(views.name)}
    for index in views.indexes:
        if index.name not in made:
            index.create(op.get_bind())


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
    for table, columns in COLUMNS.items():
        for name in columns:
            op.drop_column(table, name)
