"""Batches, which jobs belong to them, and whose results a job may read."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, String, Table

from horae.core.jobs.batch import Batch
from horae.stores.codecs import COUNT, INSTANT, NAME, NUMBER, ROW_NUMBER, TEXT, Number, text
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark, metadata

BATCHES = Declaration(
    "horae_batches",
    Batch,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("name", text(200), Mark.FIXED, required=True),
    Field("state", text(12), required=True),
    Field("owner", NAME, Mark.FIXED, required=True),
    Field("total", COUNT, Mark.FIXED, required=True),
    Field("created_at", INSTANT, Mark.FIXED, required=True),
    Field("actor", NAME, Mark.FIXED, required=True),
    Field("key", NAME, Mark.FIXED, column="idempotency_key"),
    Field("request_hash", text(64), Mark.FIXED, required=True),
    Field("ended_at", INSTANT),
    Field("cancel_reason", TEXT),
    Field("on_end", NUMBER),
    Field("on_success", NUMBER),
    Field("on_failure", NUMBER),
    Index("horae_batches_owner", "owner", "id"),
    Index("horae_batches_state", "state", "ended_at"),
    Index("horae_batches_key", "owner", "idempotency_key", unique=True),
    absent=("succeeded", "failed"),  # counted when they are asked for
    info=NEVER_AGAIN,
)
batches = BATCHES.table

# How each job of a batch stands: open, succeeded, failed, or callback, which is none of its jobs.
# The transaction that ends the job writes it.
batch_jobs = Table(
    "horae_batch_jobs",
    metadata,
    Column("batch_id", Number, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("state", String(12), nullable=False),
    PrimaryKeyConstraint("batch_id", "job_id"),
    Index("horae_batch_jobs_job", "job_id"),
    Index("horae_batch_jobs_state", "batch_id", "state"),
)

# The jobs that one was enqueued after. Needs go when they are met; this stays, for ``ctx.parents``.
parents = Table(
    "horae_parents",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("parent_id", Number, nullable=False),
    Column("position", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "parent_id"),
    Index("horae_parents_created", "created_at"),
)
