"""Queues and how many of their jobs may run at once; the processes that serve them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, String, Table

from horae.core.jobs.running_limits import LimitSource
from horae.ports.queues import OwnerHours, Queue
from horae.ports.workers import Node
from horae.stores.codecs import COUNT, INSTANT, MAPPING, NAME, NUMBER, SPAN, TEXT, Codec, Name, Number, text
from horae.stores.declaration import Declaration, Field, metadata

QUEUES = Declaration(
    "horae_queues",
    Queue,
    Field("name", text(100), primary_key=True),
    Field("order", text(12), column="sorting", required=True),
    Field("paused_at", INSTANT),
    Field("paused_by", NAME),
    Field("pause_reason", TEXT),
    Field("paused_until", INSTANT),
    Field("quiet_hours", text(200)),
    Field("quiet_zone", Codec(String(64), null="UTC")),
    Field("quiet_since", INSTANT),
    Field("fair", text(12)),
    Field("quiet_at", INSTANT),
    absent=("max_running",),  # limits have sources of their own
)
queues = QUEUES.table

# Owners with quiet hours; claims of tenants' jobs look here, so that there is no row for any other owner.
OWNER_HOURS = Declaration(
    "horae_quiet_owners",
    OwnerHours,
    Field("owner", NAME, primary_key=True),
    Field("quiet_hours", text(200), required=True),
    Field("quiet_zone", text(64), required=True),
    Field("quiet_since", INSTANT),
    Field("quiet_at", INSTANT),
    Field("quiet_until", INSTANT),
)
quiet_owners = OWNER_HOURS.table

# Live jobs by queue and state, as a chore counted them: only while there are so many that readers do not.
depths = Table(
    "horae_depths",
    metadata,
    Column("queue", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("jobs", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),
    Column("sampled_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("queue", "state"),
)

# How many jobs may run at once: "queue:mail", "group:etl", "global".
limits = Table(
    "horae_limits",
    metadata,
    Column("name", Name, primary_key=True),
    Column("max_running", Integer, nullable=False),
)

# What each source says about a limit: code or file of an application, or a person through a verb (app is empty then;
# max_running may be too, which lifts the limit). What follows from it is in horae_limits, which claims read.
LIMIT_SOURCES = Declaration(
    "horae_limit_sources",
    LimitSource,
    Field("name", NAME, required=True),
    Field("app", NAME, required=True),
    Field("source", text(8), required=True),
    Field("max_running", COUNT),
    PrimaryKeyConstraint("name", "app"),
)
limit_sources = LIMIT_SOURCES.table

# One row for each taken slot: the key makes a second holder impossible. Place -1 is the lock of a name.
slots = Table(
    "horae_slots",
    metadata,
    Column("name", Name, nullable=False),
    Column("place", Integer, nullable=False),
    Column("job_id", Number),
    PrimaryKeyConstraint("name", "place"),
    Index("horae_slots_job", "job_id"),
)

NODES = Declaration(
    "horae_nodes",
    Node,
    Field("node_id", text(200), column="id", primary_key=True),
    Field("host", text(255), required=True),
    Field("pid", COUNT, required=True),
    Field("version", text(40), required=True),
    Field("started_at", INSTANT, required=True),
    Field("seen_at", INSTANT, required=True),
    Field("state", text(12), required=True),
    Field("queues", MAPPING, required=True),
    Field("release", text(100), column="app_release"),  # RELEASE is a word of MariaDB's own
    Field("busy", MAPPING),
    Field("loop_lag", SPAN),
    Field("memory", NUMBER),
    Field("drain", text(8)),
    Field("drain_at", INSTANT),
    Field("drain_by", NAME),
    Field("drain_reason", TEXT),
)
nodes = NODES.table
