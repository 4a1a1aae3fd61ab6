"""The outbox: what the database has noted for a message bus, and where that is switched on."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, SmallInteger, String, Table

from horae.core.bus import OutboxEntry
from horae.stores.codecs import COUNT, INSTANT, NAME, NUMBER, ROW_NUMBER, Name, text
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark, metadata

OUTBOX = Declaration(
    "horae_outbox",
    OutboxEntry,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("kind", text(12), required=True),
    Field("happened_at", INSTANT, required=True),
    Field("job_number", NUMBER, column="job_id"),
    Field("token", NUMBER),
    Field("queue", text(100)),
    Field("handler", text(200)),
    Field("owner", NAME),
    Field("outcome", text(12)),
    Field("state", text(12)),
    Field("attempt", COUNT),
    Field("schedule_key", NAME),
    Field("fire_at", INSTANT),
    Field("trace_id", text(64)),
    info=NEVER_AGAIN,  # a number that was published once must never be another event
)
outbox = OUTBOX.table

# One row since events were noted first: the name of this database in the ids of its events, and whether it notes them.
bus = Table(
    "horae_bus",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("source", String(32), nullable=False),
    Column("enabled", SmallInteger, nullable=False),
    Column("switched_at", BigInteger, nullable=False),
    Column("actor", Name, nullable=False),
)
