"""How long runs are kept, how far old ones have been deleted, and partitions that are about to be dropped."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, String, Table

from horae.core.retention import RetentionRule
from horae.stores.codecs import INSTANT, NAME, SPAN, text
from horae.stores.declaration import Declaration, Field, metadata

# Queue and outcome are empty where a rule holds for any of them.
RULES = Declaration(
    "horae_retention",
    RetentionRule,
    Field("queue", text(100), required=True),
    Field("outcome", text(12), required=True),
    Field("keep", SPAN, column="keep_for", required=True),
    Field("stored_at", INSTANT),
    Field("stored_by", NAME, required=True),
    PrimaryKeyConstraint("queue", "outcome"),
)
retention_rules = RULES.table

# Where several spans hold: up to which end no run that is kept for this span is left. A new rule begins anew.
retention_walks = Table(
    "horae_retention_walks",
    metadata,
    Column("keep_for", BigInteger, primary_key=True, autoincrement=False),
    Column("walked_until", BigInteger, nullable=False),
)

# A partition whose runs were added to horae_run_totals and which is dropped next: readers of counts leave it out.
counted_partitions = Table(
    "horae_counted_partitions",
    metadata,
    Column("table_name", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("begins_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("table_name", "name"),
)
