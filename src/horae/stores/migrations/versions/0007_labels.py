"""A map of labels, by which lists find jobs; counts of many live jobs; indexes for lists and for a tenant's claim.

Revision ID: 0007_labels
Revises: 0006_definition_budgets

A frozen copy of the tables as they were then. The map of the jobs that are there is made by a chore, in steps.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    inspect,
    text,
)

revision = "0007_labels"
down_revision = "0006_definition_budgets"
branch_labels = None
depends_on = None

metadata = MetaData()
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Table(
    "horae_labels",
    metadata,
    Column("kind", String(8), nullable=False),
    Column("label", String(200), nullable=False),
    Column("block", BigInteger, nullable=False),
    Column("members", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "label", "block"),
    Index("horae_labels_block", "block"),
    **BYTEWISE,
)
Table(
    "horae_labelling",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("labelled", BigInteger, nullable=False),
    Column("marked", BigInteger, nullable=False),
    Column("horizon", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("seen_at", BigInteger),
    **BYTEWISE,
)
Table(
    "horae_depths",
    metadata,
    Column("queue", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("jobs", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),
    Column("sampled_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "state"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(bind, checkfirst=True)
    for table, indexes in INDEXES["partial" if bind.dialect.name in PARTIAL else "full"].items():
        there = {index["name"] for index in inspect(bind).get_indexes(table)}
        for name, columns in indexes.items():
            if name not in there:
                op.execute(text(f"CREATE INDEX {name} ON {table} {columns}"))
    index_ends(["finished_at", "job_id"])


def index_ends(columns: list[str]) -> None:
    """Make the index of ends anew with these columns."""
    there = {index["name"]: index["column_names"] for index in inspect(op.get_bind()).get_indexes("horae_runs")}
    if there.get("horae_runs_finished") != columns:
        if "horae_runs_finished" in there:
            op.drop_index("horae_runs_finished", table_name="horae_runs")
        op.create_index("horae_runs_finished", "horae_runs", columns)


def downgrade() -> None:
    bind = op.get_bind()
    index_ends(["finished_at"])
    for table, indexes in INDEXES["partial" if bind.dialect.name in PARTIAL else "full"].items():
        for name in indexes:
            op.drop_index(name, table_name=table)
    metadata.drop_all(bind)


PARTIAL = ("sqlite", "postgresql")
INDEXES: dict[str, dict[str, dict[str, str]]] = {
    "partial": {
        "horae_jobs": {"horae_jobs_died": "(finished_at, id) WHERE state = 'dead'"},
        "horae_runs": {"horae_runs_cancelled": "(job_id) WHERE state = 'cancelled'"},
    },
    "full": {
        "horae_jobs": {
            "horae_jobs_died": "(finished_at, id)",
            "horae_jobs_owned": "(owner, queue, band, run_at, id)",
        },
        "horae_runs": {"horae_runs_cancelled": "(state, job_id)"},
    },
}
