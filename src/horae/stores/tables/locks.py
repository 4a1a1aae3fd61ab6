"""Locks and rate limits that live in the database."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, String, Table

from horae.stores.codecs import Name, Number
from horae.stores.declaration import metadata

locks = Table(
    "horae_locks",
    metadata,
    Column("name", Name, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("holder", Name, nullable=False, server_default=""),
)

# One row for each rate limit in use: the lock behind which its calls are counted.
rates = Table(
    "horae_rates",
    metadata,
    Column("name", Name, primary_key=True),
)

calls = Table(
    "horae_calls",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("rate", Name, nullable=False),
    Column("ticket", String(64), nullable=False, unique=True),
    Column("state", String(8), nullable=False),  # made: at is its instant; waiting: at is how long it keeps its place
    Column("at", BigInteger, nullable=False),
    Index("horae_calls_rate", "rate", "state", "at"),
)
