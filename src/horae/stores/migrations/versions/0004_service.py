"""Tokens, tenants, secrets; titles and toggles of schedules; indexes for tenants' rows.

Revision ID: 0004
Revises: 0003

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    inspect,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

metadata = MetaData()


class Json(UserDefinedType[str]):
    """JSON kept as the text it came as."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"


@compiles(Json, "sqlite")
def _json_is_text_on_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"


@compiles(Json, "mysql")
@compiles(Json, "mariadb")
def _json_is_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"  # MariaDB's JSON is that and a check that refuses more than 32 levels; MySQL's changes the text


# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Name = String(255)
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")

# Who may call the service. Only a digest of the secret is kept.
tokens = Table(
    "horae_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("owner", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("queues", Json, nullable=False),  # what a worker's token may serve; empty: every queue
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Name, nullable=False),
    Column("expires_at", BigInteger),
    Column("used_at", BigInteger),
    Column("used_from", String(64)),
    Column("revoked_at", BigInteger),
    Column("revoked_by", Name),
    Index("horae_tokens_owner", "owner", "created_at"),
    **BYTEWISE,
)

# One row for each tenant in use: the lock behind which its quotas are counted, and what is special about it.
owners = Table(
    "horae_owners",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("settings", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    **BYTEWISE,
)

# Secrets that jobs refer to by name, sealed with a key that is not in the database; the one before stays valid a while.
secrets = Table(
    "horae_secrets",
    metadata,
    Column("owner", Name, nullable=False),
    Column("name", String(200), nullable=False),
    Column("sealed", LongText, nullable=False),
    Column("previous", LongText),
    Column("previous_until", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "name"),
    **BYTEWISE,
)

COLUMNS: dict[str, Column[Any]] = {"title": Column("title", Name), "toggled": Column("toggled", SmallInteger)}
INDEXES = {
    "horae_audit_owner": ("horae_audit", "owner, id"),
    "horae_schedules_owner": ("horae_schedules", "owner, updated_at, id"),
}
PARTIAL_INDEXES = {
    "horae_jobs_owned": (
        "horae_jobs",
        "owner, queue, band, run_at, id) WHERE (state = 'queued' AND held = '' AND owner <> 'system'",
    ),
    "horae_jobs_owner": ("horae_jobs", "owner, id) WHERE (owner <> 'system'"),
}


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    bind = op.get_bind()
    metadata.create_all(bind, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(bind, checkfirst=True)
    known = {column["name"] for column in inspect(bind).get_columns("horae_schedules")}
    for name, column in COLUMNS.items():
        if name not in known:
            op.add_column("horae_schedules", column)
    wanted = INDEXES if bind.dialect.name in ("mysql", "mariadb") else {**INDEXES, **PARTIAL_INDEXES}
    for name, (table, columns) in wanted.items():
        if name not in {index["name"] for index in inspect(bind).get_indexes(table)}:
            op.execute(text(f"CREATE INDEX {name} ON {table} ({columns})"))


def downgrade() -> None:
    bind = op.get_bind()
    for name, (table, _) in {**INDEXES, **PARTIAL_INDEXES}.items():
        if name in {index["name"] for index in inspect(bind).get_indexes(table)}:
            op.drop_index(name, table)
    for name in COLUMNS:
        op.drop_column("horae_schedules", name)
    metadata.drop_all(bind)
