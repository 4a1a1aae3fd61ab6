"""Parents and charges of tasks; indexes so that a step reads few rows; pictures of lanes for looks at the past.

Revision ID: 0009_attention
Revises: 0008_catch_all

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, MetaData, PrimaryKeyConstraint, Table, Text, inspect, text
from sqlalchemy.dialects import mysql

revision = "0009_attention"
down_revision = "0008_catch_all"
branch_labels = None
depends_on = None

LongText = Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_journal_pictures",
    metadata,
    Column("lane_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("row_count", Integer, nullable=False),
    Column("tables", LongText, nullable=False),
    PrimaryKeyConstraint("lane_id", "seq"),
    **BYTEWISE,
)
COLUMNS: dict[str, Any] = {"parent_id": BigInteger, "charged": Text}
INDEXES: dict[str, dict[str, tuple[list[str], str | None]]] = {
    "horae_tasks": {
        "horae_tasks_backlog": (["lane_id", "state", "base", "ready_since", "id"], None),
        "horae_tasks_age": (["lane_id", "state", "ready_since"], None),
        "horae_tasks_due": (["lane_id", "state", "base", "due_by"], "due_by IS NOT NULL"),
        "horae_tasks_expiry": (["lane_id", "state", "expires_at"], "expires_at IS NOT NULL"),
        "horae_tasks_parent": (["parent_id"], "parent_id IS NOT NULL"),
    },
    "horae_events": {"horae_events_state": (["lane_id", "state", "id"], None)},
    "horae_journal": {"horae_journal_task": (["lane_id", "task_id", "seq"], None)},
}
LONGER = {
    "horae_waits_key": (["lane_id", "wait_key", "state"], ["lane_id", "wait_key", "state", "id"]),
    "horae_waits_task": (["task_id"], ["task_id", "state"]),
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    known = {each["name"] for each in inspect(bind).get_columns("horae_tasks")}
    for name, kind in COLUMNS.items():
        if name not in known:
            op.add_column("horae_tasks", Column(name, kind))
    metadata.create_all(bind, checkfirst=True)
    for table, indexes in INDEXES.items():
        there = {index["name"] for index in inspect(bind).get_indexes(table)}
        for name, (columns, condition) in indexes.items():
            if name not in there:
                where = None if condition is None else text(condition)
                op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
    for name, (_, columns) in LONGER.items():
        index_waits(name, columns)


def index_waits(name: str, columns: list[str]) -> None:
    """Make an index of waits anew with these columns."""
    there = {index["name"]: index["column_names"] for index in inspect(op.get_bind()).get_indexes("horae_waits")}
    if there.get(name) != columns:
        if name in there:
            op.drop_index(name, table_name="horae_waits")
        op.create_index(name, "horae_waits", columns)


def downgrade() -> None:
    for name, (columns, _) in LONGER.items():
        index_waits(name, columns)
    for table, indexes in INDEXES.items():
        for name in indexes:
            op.drop_index(name, table_name=table)
    metadata.drop_all(op.get_bind())
    for name in COLUMNS:
        op.drop_column("horae_tasks", name)
