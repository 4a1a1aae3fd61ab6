"""What the databases of a cluster have to tell each other; empty where there is no cluster."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, SmallInteger, String, Table, Text

from horae.stores.codecs import LongText, Number
from horae.stores.declaration import metadata

# Jobs elsewhere that wait for a job of this database.
asks = Table(
    "horae_asks",
    metadata,
    Column("needed_id", Number, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("state", String(8), nullable=False),  # open, ended: an answer is still to be written, told
    Column("version", BigInteger, nullable=False),  # of the last answer
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("needed_id", "job_id"),
    Index("horae_asks_state", "state"),
)
# What is to be delivered; a row goes once it has had its effect where it goes to.
messages = Table(
    "horae_messages",
    metadata,
    Column("kind", String(8), nullable=False),
    Column("sender", Number, nullable=False),
    Column("receiver", Number, nullable=False),
    Column("vshard", SmallInteger, nullable=False),  # of the receiver; -1: it was numbered before the cluster
    Column("version", BigInteger, nullable=False),
    Column("content", LongText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False),
    PrimaryKeyConstraint("kind", "sender", "receiver"),
    Index("horae_messages_vshard", "vshard", "due_at"),
)
# How the parents of a job stand that are elsewhere, as last heard: for the job's own reading, and against repetition.
answers = Table(
    "horae_answers",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("parent_id", Number, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("handler", String(255)),
    Column("result", LongText),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "parent_id"),
    Index("horae_answers_created", "created_at"),
)
# Jobs that came from the database of a caller's transaction: against repetition, also when they have ended or left.
arrivals = Table(
    "horae_arrivals",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("created_at", BigInteger, nullable=False),
    Index("horae_arrivals_created", "created_at"),
)
# Schedules elsewhere that follow a schedule of this database.
followers = Table(
    "horae_followers",
    metadata,
    Column("followed_id", Number, nullable=False),
    Column("schedule_id", Number, nullable=False),  # the follower, elsewhere
    Column("name", String(255), nullable=False),  # its key
    Column("alias", BigInteger, nullable=False),  # how the follower's database names the followed one
    Column("vshard", SmallInteger, nullable=False),  # of the follower
    Column("is_on", SmallInteger, nullable=False),
    Column("asked", BigInteger, nullable=False),  # the version of the follower that said so
    Column("version", BigInteger, nullable=False),  # of the last success that was told
    PrimaryKeyConstraint("followed_id", "schedule_id"),
)
