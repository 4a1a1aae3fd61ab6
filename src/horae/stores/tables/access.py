"""Access: tokens, owners, secrets, and which handlers tenants may reach."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table

from horae.core.access.callers import Token
from horae.ports.access import Sealed
from horae.ports.definitions import StoredDefinition
from horae.stores.codecs import BUDGET, FLAG, INSTANT, LONG_TEXT, NAME, PARAMETERS, TEXT, WORDS, Json, Name, text
from horae.stores.declaration import Declaration, Field, Mark, metadata

# What the house's workers can run, and which of it tenants' jobs may reach. Nothing stored means: not open.
DEFINITIONS = Declaration(
    "horae_definitions",
    StoredDefinition,
    Field("name", text(200), primary_key=True),
    Field("queue", text(100), required=True),
    Field("tenants", FLAG, required=True),
    Field("app", NAME, required=True),
    Field("stored_at", INSTANT, required=True),
    Field("stored_by", NAME, required=True),
    Field("sensitive", WORDS, column="sensitive_names"),  # SENSITIVE is a word of MariaDB's own
    Field("parameters", PARAMETERS),
    Field("description", TEXT),
    Field("budget", BUDGET),
)
definitions = DEFINITIONS.table

# Who may call the service. Only a digest of the secret is kept.
TOKENS = Declaration(
    "horae_tokens",
    Token,
    Field("token_id", text(32), column="id", primary_key=True),
    Field("digest", text(64), required=True),
    Field("owner", NAME, required=True),
    Field("name", NAME, required=True),
    Field("scopes", WORDS, required=True),
    Field("queues", WORDS, required=True),  # what a worker's token may serve; empty: every queue
    Field("created_at", INSTANT, required=True),
    Field("created_by", NAME, required=True),
    Field("expires_at", INSTANT),
    Field("used_at", INSTANT),
    Field("used_from", text(64)),
    Field("revoked_at", INSTANT),
    Field("revoked_by", NAME),
    Field("agent", text(100)),  # which holds it; empty: a person or a program
    Index("horae_tokens_owner", "owner", "created_at"),
)
tokens = TOKENS.table

# One row for each tenant in use: the lock behind which its quotas are counted, and what is special about it.
owners = Table(
    "horae_owners",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("settings", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("weight", Integer, nullable=False, server_default="1"),  # its share of fair queues; also in the settings
)

# Secrets that jobs refer to by name, sealed with a key that is not in the database; the one before stays valid a while.
SECRETS = Declaration(
    "horae_secrets",
    Sealed,
    Field("owner", NAME, Mark.INTERNAL, required=True),
    Field("name", text(200), required=True),
    Field("text", LONG_TEXT, column="sealed", required=True),
    Field("previous", LONG_TEXT),
    Field("previous_until", INSTANT),
    Field("created_at", INSTANT, required=True),
    Field("updated_at", INSTANT, required=True),
    PrimaryKeyConstraint("owner", "name"),
)
secrets = SECRETS.table
