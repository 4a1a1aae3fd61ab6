"""What handlers have logged: the last lines of an attempt, written with its ending."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table

from horae.stores.codecs import LongText, Number
from horae.stores.declaration import metadata

lines = Table(
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
)
