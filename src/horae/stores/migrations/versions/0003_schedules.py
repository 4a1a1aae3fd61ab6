"""Schedules, fires, and who follows whom.

Revision ID: 0003
Revises: 0002

A frozen copy of the tables as they were then.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

revision = "0003"
down_revision = "0002"
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


Number = BigInteger().with_variant(Integer, "sqlite")
# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Name = String(255)

schedules = Table(
    "horae_schedules",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("schedule_key", Name, nullable=False),
    Column("owner", Name, nullable=False),
    Column("group_name", String(100)),
    Column("handler", String(200), nullable=False),
    Column("payload", Json, nullable=False),
    Column("queue", String(100), nullable=False),
    Column("band", SmallInteger, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("expression", String(255), nullable=False),
    Column("zone", String(64), nullable=False),
    Column("day_match", String(4), nullable=False),
    Column("gap", String(8), nullable=False),
    Column("fold", String(8), nullable=False),
    Column("lenient", SmallInteger, nullable=False),
    Column("anchor", String(8), nullable=False),
    Column("initial_delay", BigInteger, nullable=False),
    Column("misfire", String(12), nullable=False),
    Column("catch_up", Integer, nullable=False),
    Column("spread", BigInteger, nullable=False),
    Column("grace", BigInteger, nullable=False),
    Column("overlap", String(12), nullable=False),
    Column("jitter", BigInteger, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("retry", Json, nullable=False),
    Column("timeout", BigInteger),
    Column("mode", String(12), nullable=False),
    Column("lock_ttl", BigInteger),
    Column("stale_timeout", BigInteger),
    Column("follows", Json, nullable=False),  # the keys of the schedules that must succeed first
    Column("starts_at", BigInteger),
    Column("ends_at", BigInteger),
    Column("max_fires", Integer),
    Column("enabled", SmallInteger, nullable=False),
    Column("declared", SmallInteger, nullable=False),
    Column("inactive", Text),
    Column("paused_at", BigInteger),
    Column("paused_by", Name),
    Column("pause_reason", Text),
    Column("next_fire_at", BigInteger),
    Column("next_due_at", BigInteger),  # empty for whatever must not fire, so that one index finds what must
    Column("tzdata", String(20), nullable=False),
    Column("fire_count", Integer, nullable=False),
    Column("last_fire_at", BigInteger),
    Column("sources", Json, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("horae_schedules_key", "owner", "schedule_key", unique=True),
    Index("horae_schedules_due", "next_due_at"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

# Every due fire leaves one record. The key makes a second job for the same occurrence impossible.
fires = Table(
    "horae_fires",
    metadata,
    Column("schedule_id", BigInteger, nullable=False),
    Column("kind", String(12), nullable=False),
    Column("fire_at", BigInteger, nullable=False),
    Column("verdict", String(8), nullable=False),
    Column("reason", Text),
    Column("due_at", BigInteger),
    Column("last_at", BigInteger),
    Column("fire_count", Integer, nullable=False),
    Column("merged_into", BigInteger),
    Column("job_id", BigInteger),
    Column("recorded_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("schedule_id", "kind", "fire_at"),
    Index("horae_fires_recorded", "recorded_at"),
    **BYTEWISE,
)

# Which schedule follows which, and whether the followed one has succeeded since the follower last fired.
follows = Table(
    "horae_follows",
    metadata,
    Column("schedule_id", BigInteger, nullable=False),
    Column("followed_id", BigInteger, nullable=False),
    Column("succeeded_at", BigInteger),
    PrimaryKeyConstraint("schedule_id", "followed_id"),
    Index("horae_follows_followed", "followed_id"),
    **BYTEWISE,
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    metadata.create_all(op.get_bind(), checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(op.get_bind(), checkfirst=True)  # a table that was there already may still want its indexes


def downgrade() -> None:
    metadata.drop_all(op.get_bind())
