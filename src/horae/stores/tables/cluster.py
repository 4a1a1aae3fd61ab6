"""The copy of a cluster's map that each of its databases has; empty where there is no cluster."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, PrimaryKeyConstraint, SmallInteger, String, Table, Text

from horae.core.cluster.settings import SharedSetting
from horae.stores.codecs import COUNT, JSON, NAME, NUMBER, TEXT, LongText, Name, text
from horae.stores.declaration import Declaration, Field, metadata

# One row, once this database is a member of a cluster.
cluster = Table(
    "horae_cluster",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False),  # of this database; none else ever has it
    Column("version", BigInteger, nullable=False),
    Column("salt", String(64), nullable=False),
    Column("next_number", Integer, nullable=False),
    Column("drawn", BigInteger, nullable=False),  # the last value drawn for a number, where there are no sequences
)
members = Table(
    "horae_cluster_members",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String(40), nullable=False),
    Column("address", String(500), nullable=False),  # without a password
    Column("takes_shards", SmallInteger, nullable=False, server_default="1"),  # 0: only callers' transactions are here
)
vshards = Table(
    "horae_vshards",
    metadata,
    Column("vshard", SmallInteger, primary_key=True, autoincrement=False),
    Column("place", Integer, nullable=False),  # the number of the database that keeps it
    Column("state", String(8), nullable=False),  # owned, or moving: then nothing may be written
)

# Virtual shards on the way to another database: packed where they were, expected where they go.
parcels = Table(
    "horae_parcels",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("role", String(8), nullable=False),  # packed, or expected
    Column("source", Integer, nullable=False),
    Column("target", Integer, nullable=False),
    Column("vshards", Text, nullable=False),
)
# The rows of a packed parcel, some hundred of one table in each; they are in no other table meanwhile.
parcel_rows = Table(
    "horae_parcel_rows",
    metadata,
    Column("parcel", String(32), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("name", String(64), nullable=False),
    Column("content", LongText, nullable=False),
    PrimaryKeyConstraint("parcel", "seq"),
)
# Jobs with numbers from before the cluster that have left the first database: to which virtual shard they belong.
forwards = Table(
    "horae_forwards",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("vshard", SmallInteger, nullable=False),
)

# Which workers serve this database, by queue, in a cluster of many; instants are on the lease line.
serving = Table(
    "horae_serving",
    metadata,
    Column("queue", String(100), nullable=False),
    Column("worker", Name, nullable=False),
    Column("leased_until", BigInteger, nullable=False),
    Column("is_chosen", SmallInteger, nullable=False),  # 0: only while no other worker serves the queue here
    PrimaryKeyConstraint("queue", "worker"),
)

# The last decision about each setting of the house, and what of it holds in this database. A setting that was removed
# keeps its row: without it a copy that was away would bring the setting back.
SETTINGS = Declaration(
    "horae_settings",
    SharedSetting,
    Field("kind", text(20), required=True),
    Field("name", NAME, required=True),
    Field("version", NUMBER, required=True),
    Field("decided_in", COUNT, required=True),  # the number of the database where it was decided
    Field("value", JSON, required=True),
    Field("actor", NAME, required=True),
    Field("reason", TEXT, required=True),
    Field("applied", text(20), required=True),  # empty: nothing of it holds here yet
    PrimaryKeyConstraint("kind", "name"),
)
settings = SETTINGS.table
