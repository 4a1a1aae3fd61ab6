"""The map of labels, by which lists find jobs: core/jobs/labels.py says what it means."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, String, Table

from horae.core.jobs.labels import LONGEST, Labelling
from horae.stores.codecs import INSTANT, NUMBER, SMALL
from horae.stores.declaration import Declaration, Field, metadata

labels = Table(
    "horae_labels",
    metadata,
    Column("kind", String(8), nullable=False),
    Column("label", String(LONGEST), nullable=False),
    Column("block", BigInteger, nullable=False),
    Column("members", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "label", "block"),
    Index("horae_labels_block", "block"),
)

# How far the map reaches. One row; it is locked while a step is written.
LABELLING = Declaration(
    "horae_labelling",
    Labelling,
    Field("id", SMALL, primary_key=True, autoincrement=False),
    Field("labelled", NUMBER, required=True),
    Field("marked", NUMBER, required=True),
    Field("horizon", NUMBER, required=True),
    Field("seen", NUMBER, required=True),
    Field("seen_at", INSTANT),
)
labelling = LABELLING.table
