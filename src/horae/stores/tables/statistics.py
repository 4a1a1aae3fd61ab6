"""Statistics of endings, how far they have been rolled up, and groups of errors."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, String, Table, Text

from horae.core.error_groups import ErrorGroup
from horae.core.statistics import RollUp
from horae.stores.codecs import INSTANT, NAME, NUMBER, SMALL, TEXT, Name, text
from horae.stores.declaration import Declaration, Field, metadata

# One row for each span and name in which something ended; "depth" rows are samples. core/statistics.py says the rest.
stats = Table(
    "horae_stats",
    metadata,
    Column("grain", String(6), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("scope", String(8), nullable=False),
    Column("name", Name, nullable=False),
    Column("seen", BigInteger, nullable=False, server_default="0"),
    Column("runs", BigInteger, nullable=False, server_default="0"),
    Column("succeeded", BigInteger, nullable=False, server_default="0"),
    Column("failed", BigInteger, nullable=False, server_default="0"),
    Column("retried", BigInteger, nullable=False, server_default="0"),
    Column("dead", BigInteger, nullable=False, server_default="0"),
    Column("cancelled", BigInteger, nullable=False, server_default="0"),
    Column("lost", BigInteger, nullable=False, server_default="0"),
    Column("recovered", BigInteger, nullable=False, server_default="0"),
    Column("duration_sum", BigInteger, nullable=False, server_default="0"),
    Column("delay_sum", BigInteger, nullable=False, server_default="0"),
    Column("durations", Text, nullable=False),
    Column("delays", Text, nullable=False),
    Column("depth", Integer),
    PrimaryKeyConstraint("grain", "at", "scope", "name"),
    Index("horae_stats_series", "grain", "scope", "name", "at"),
)

# How far endings have been counted. One row; it is locked while a step is written.
ROLL_UP = Declaration(
    "horae_roll_up",
    RollUp,
    Field("id", SMALL, primary_key=True, autoincrement=False),
    Field("version", NUMBER, required=True),
    Field("rolled_until", NUMBER, required=True),
    Field("ended_until", NUMBER, required=True),
    Field("checked_until", NUMBER, required=True),
    Field("check_at", NUMBER, required=True),
    Field("sampled_at", NUMBER, required=True),
    Field("minutes_from", NUMBER, required=True),
    Field("hours_from", NUMBER, required=True),
    Field("days_from", NUMBER, required=True),
    Field("last_number", NUMBER, required=True),
)
roll_ups = ROLL_UP.table

ERROR_GROUPS = Declaration(
    "horae_error_groups",
    ErrorGroup,
    Field("owner", NAME, required=True),
    Field("fingerprint", text(32), required=True),
    Field("handler", text(200), required=True),
    Field("kind", NAME, required=True),
    Field("title", TEXT, required=True),
    Field("raised_in", NAME, required=True),
    Field("message", TEXT, required=True),
    Field("count", NUMBER, column="error_count", required=True),
    Field("first_seen", INSTANT, required=True),
    Field("last_seen", INSTANT, required=True),
    Field("sample_job", NUMBER, required=True),
    Field("sample_token", NUMBER, required=True),
    Field("first_release", text(100)),
    Field("last_release", text(100)),
    Field("muted_at", INSTANT),
    Field("muted_until", INSTANT),
    Field("muted_by", NAME),
    Field("mute_reason", TEXT),
    PrimaryKeyConstraint("owner", "fingerprint"),
    Index("horae_error_groups_seen", "last_seen", "owner", "fingerprint"),
    Index("horae_error_groups_owner", "owner", "last_seen", "fingerprint"),
)
error_groups = ERROR_GROUPS.table

# How often each group was seen in a minute, so that a minute that is counted again adds the difference, and in a day.
error_counts = Table(
    "horae_error_counts",
    metadata,
    Column("grain", String(6), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("owner", Name, nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("error_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("grain", "at", "owner", "fingerprint"),
    Index("horae_error_counts_group", "owner", "fingerprint", "grain", "at"),
)
