"""What agent frameworks keep here: checkpoints and their writes, items of sessions, documents."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, String, Table

from horae.stores.codecs import LongBlob, LongText, Name
from horae.stores.declaration import metadata

# The place is the digest of owner, thread and namespace: a namespace grows with every nested graph.
checkpoints = Table(
    "horae_checkpoints",
    metadata,
    Column("place", String(64), nullable=False),
    Column("checkpoint_id", String(64), nullable=False),
    Column("owner", Name, nullable=False),
    Column("thread_id", Name, nullable=False),
    Column("namespace", LongText, nullable=False),
    Column("parent_id", String(64)),
    Column("run_id", Name),
    Column("kind", String(32), nullable=False),
    Column("body", LongBlob, nullable=False),
    Column("about", LongText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("place", "checkpoint_id"),
    Index("horae_checkpoints_thread", "owner", "thread_id"),
    Index("horae_checkpoints_run", "owner", "run_id"),
    Index("horae_checkpoints_created", "created_at"),
)

checkpoint_writes = Table(
    "horae_checkpoint_writes",
    metadata,
    Column("place", String(64), nullable=False),
    Column("checkpoint_id", String(64), nullable=False),
    Column("task_id", String(64), nullable=False),
    Column("idx", Integer, nullable=False),
    Column("task_path", LongText, nullable=False),
    Column("channel", LongText, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("body", LongBlob, nullable=False),
    PrimaryKeyConstraint("place", "checkpoint_id", "task_id", "idx"),
)

session_items = Table(
    "horae_session_items",
    metadata,
    Column("owner", Name, nullable=False),
    Column("session_id", Name, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("item", LongText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "session_id", "position"),
)

documents = Table(
    "horae_documents",
    metadata,
    Column("owner", Name, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("name", Name, nullable=False),
    Column("body", LongText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "kind", "name"),
)
