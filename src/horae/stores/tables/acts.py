"""Bulk acts, and the former times of the jobs that they moved."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table

from horae.core.jobs.acts import Act
from horae.stores.codecs import COUNT, FLAG, INSTANT, MAPPING, NAME, NUMBER, ROW_NUMBER, TEXT, WORDS, Number, text
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark, metadata

ACTS = Declaration(
    "horae_acts",
    Act,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("verb", text(12), Mark.FIXED, required=True),
    Field("state", text(12), required=True),
    Field("filter", TEXT, Mark.FIXED, column="wanted", required=True),
    Field("highest", NUMBER, Mark.FIXED, required=True),
    Field("position", NUMBER, required=True),
    Field("created_at", INSTANT, Mark.FIXED, required=True),
    Field("actor", NAME, Mark.FIXED, required=True),
    Field("owner", NAME, Mark.FIXED, required=True),
    Field("queues", WORDS, Mark.FIXED),
    Field("reason", TEXT, Mark.FIXED, required=True),
    Field("run_at", INSTANT, Mark.FIXED),
    Field("undoes", NUMBER, Mark.FIXED),
    Field("job", NUMBER, column="job_id"),
    Field("matched", COUNT, Mark.FIXED, required=True),
    Field("more", FLAG, Mark.FIXED, required=True),
    Field("changed", COUNT, required=True),
    Field("skipped", COUNT, required=True),
    Field("kept", COUNT, required=True),
    Field("skipped_for", MAPPING, required=True),
    Field("sample", MAPPING, required=True),
    Field("finished_at", INSTANT),
    Field("databases", WORDS, Mark.FIXED, column="parts"),
    Index("horae_acts_owner", "owner", "id"),
    Index("horae_acts_state", "state", "finished_at"),
    info=NEVER_AGAIN,
)
acts = ACTS.table

# When a job was due before an act moved it. Kept for a bounded number of jobs, and gone with the act.
act_moves = Table(
    "horae_act_moves",
    metadata,
    Column("act_id", Number, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("run_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("act_id", "job_id"),
)
