"""Audit entries, and how far each owner's chain of them has come."""

from __future__ import annotations

import json

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, String, Table

from horae.core.audit.entries import Entry, without_floats
from horae.stores.codecs import (
    INSTANT,
    LONG_TEXT,
    NAME,
    NUMBER,
    ROW_NUMBER,
    WORDS,
    Codec,
    Json,
    LongText,
    Name,
    Number,
    text,
)
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark, metadata

_STATE = Codec(Json(), json.loads, lambda state: json.dumps(without_floats(state), default=str))

AUDIT = Declaration(
    "horae_audit",
    Entry,
    Field("id", ROW_NUMBER, Mark.DRAWN | Mark.INTERNAL, primary_key=True, autoincrement=True),
    Field("at", INSTANT, required=True),
    Field("actor", NAME, required=True),
    Field("verb", text(40), required=True),
    Field("object_type", text(40), required=True),
    Field("object_id", NAME, required=True),
    Field("owner", NAME, required=True),
    Field("reason", LONG_TEXT),
    Field("before", _STATE, column="state_before", required=True),
    Field("after", _STATE, column="state_after", required=True),
    Field("evidence", WORDS, required=True),
    Field("chain_seq", NUMBER, Mark.INTERNAL),  # its place in its owner's chain, once it is sealed
    Field("hash", text(64), Mark.INTERNAL),
    Field("event_kind", text(20)),
    Field("risk", text(8)),
    Field("decision", text(150)),
    Field("job", text(32)),
    Field("correlation", text(100)),
    Field("reason_digest", text(64)),
    Index("horae_audit_object", "object_id"),
    Index("horae_audit_owner", "owner", "id"),
    Index("horae_audit_chain", "chain_seq", "id"),
    Index("horae_audit_owner_chain", "owner", "chain_seq", "id"),
    absent=("private_reason",),
    info=NEVER_AGAIN | {"postgresql": {"with": {"autovacuum_vacuum_scale_factor": "0.02"}}},
)
audit = AUDIT.table
# What is not sealed yet, here and in journals. Without partial indexes, horae_audit_chain finds the entries.
UNSEALED_INDEXES = (
    "CREATE INDEX horae_audit_unsealed ON horae_audit (id) WHERE chain_seq IS NULL",
    "CREATE INDEX horae_journal_unsealed ON horae_journal (lane_id) WHERE hash IS NULL",
)

# Reasons that can be erased. An entry has the digest, which its chain covers; the text and the key stand here.
audit_reasons = Table(
    "horae_audit_reasons",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("owner", Name, nullable=False),
    Column("reason_key", String(64), nullable=False),
    Column("reason", LongText, nullable=False),
    Index("horae_audit_reasons_owner", "owner"),
)

# Always empty. Its foreign key makes InnoDB refuse to truncate the audit, which fires no trigger there.
audit_guard = Table(
    "horae_audit_guard",
    metadata,
    Column("entry", Number, primary_key=True, autoincrement=False),
    ForeignKeyConstraint(["entry"], ["horae_audit.id"], name="horae_audit_guard_entry"),
)

# The head of each owner's chain of audit entries; the row with an empty owner is the lock of sealing.
chains = Table(
    "horae_chains",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
)
