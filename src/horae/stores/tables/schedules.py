"""Schedules, their fire records, who follows whom, and counts of runs that the history no longer holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, String, Table

from horae.core.schedules.schedule import Fire, Schedule, make_schedule
from horae.stores.codecs import (
    COUNT,
    FLAG,
    INSTANT,
    JSON,
    MAPPING,
    NAME,
    NUMBER,
    PRIORITY,
    RETRY,
    ROW_NUMBER,
    SOURCES,
    SPAN,
    TEXT,
    WORDS,
    Codec,
    Name,
    text,
)
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark, metadata

CALENDAR_RULE = Codec(String(8), null="exclude")  # rows from before there were calendars have none
SCHEDULES = Declaration(
    "horae_schedules",
    Schedule,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("key", NAME, column="schedule_key", required=True),
    Field("owner", NAME, required=True),
    Field("group", text(100), column="group_name"),
    Field("handler", text(200), required=True),
    Field("payload", JSON, required=True),
    Field("queue", text(100), required=True),
    Field("priority", PRIORITY, column="band", required=True),
    Field("kind", text(8), required=True),
    Field("expression", text(255), required=True),
    Field("zone", text(64), required=True),
    Field("day_match", text(4), required=True),
    Field("gap", text(8), required=True),
    Field("fold", text(8), required=True),
    Field("lenient", FLAG, required=True),
    Field("anchor", text(8), required=True),
    Field("initial_delay", SPAN, required=True),
    Field("misfire", text(12), required=True),
    Field("catch_up", COUNT, required=True),
    Field("spread", SPAN, required=True),
    Field("grace", SPAN, required=True),
    Field("overlap", text(12), required=True),
    Field("jitter", SPAN, required=True),
    Field("max_attempts", COUNT, Mark.INTERNAL, source="retry.attempts", required=True),
    Field("retry", RETRY, required=True),
    Field("timeout", SPAN),
    Field("mode", text(12), required=True),
    Field("lock_ttl", SPAN),
    Field("stale_timeout", SPAN),
    Field("after", WORDS, column="follows", required=True),  # the keys of the schedules that must succeed first
    Field("starts_at", INSTANT),
    Field("ends_at", INSTANT),
    Field("max_fires", COUNT),
    Field("enabled", FLAG, required=True),
    Field("declared", FLAG, required=True),
    Field("inactive", TEXT),
    Field("paused_at", INSTANT),
    Field("paused_by", NAME),
    Field("pause_reason", TEXT),
    Field("next_fire_at", INSTANT),
    Field("next_due_at", INSTANT),  # empty for whatever must not fire, so that one index finds what must
    Field("tzdata", text(20), required=True),
    Field("fire_count", COUNT, required=True),
    Field("last_fire_at", INSTANT),
    Field("sources", SOURCES, required=True),
    Field("version", COUNT, required=True),
    Field("created_at", INSTANT, required=True),
    Field("updated_at", INSTANT, required=True),
    Field("title", NAME),
    Field("toggled", FLAG),  # wins over enabled until a worker of the application starts again
    Field("budget", NAME),
    Field("cost", MAPPING),
    Field("paused_until", INSTANT),
    Field("quiet_hours", text(200)),
    Field("calendar", text(100)),
    Field("calendar_rule", CALENDAR_RULE),
    Field("calendar_days", WORDS),
    Field("expect", text(120)),
    Field("expected_since", INSTANT),
    Field("succeeded_at", INSTANT),
    Field("missed_at", INSTANT),
    Field("check_job", NUMBER),
    Index("horae_schedules_key", "owner", "schedule_key", unique=True),
    Index("horae_schedules_due", "next_due_at"),
    Index("horae_schedules_owner", "owner", "updated_at", "id"),
    make=make_schedule,
    info=NEVER_AGAIN,
)
schedules = SCHEDULES.table

# Every due fire leaves one record. The key makes a second job for the same occurrence impossible.
FIRES = Declaration(
    "horae_fires",
    Fire,
    Field("schedule_id", NUMBER, Mark.INTERNAL, required=True),
    Field("kind", text(12), required=True),
    Field("fire_at", INSTANT, required=True),
    Field("verdict", text(8), required=True),
    Field("reason", TEXT),
    Field("due_at", INSTANT),
    Field("last_at", INSTANT),
    Field("count", COUNT, column="fire_count", required=True),
    Field("merged_into", INSTANT),
    Field("job_id", NUMBER, Mark.INTERNAL),
    Field("recorded_at", INSTANT, Mark.INTERNAL, required=True),
    PrimaryKeyConstraint("schedule_id", "kind", "fire_at"),
    Index("horae_fires_recorded", "recorded_at"),
)
fires = FIRES.table
FIRE_COLUMNS = (*FIRES.written, "schedule_id", "job_id", "recorded_at")


def fire_row(schedule_id: int, fire: Fire, job_id: int | None, recorded_at: int) -> Sequence[Any]:
    """Return the values of FIRE_COLUMNS."""
    return (*FIRES.values(fire), schedule_id, job_id, recorded_at)


# Which schedule follows which, and whether the followed one has succeeded since the follower last fired.
follows = Table(
    "horae_follows",
    metadata,
    Column("schedule_id", BigInteger, nullable=False),
    Column("followed_id", BigInteger, nullable=False),
    Column("succeeded_at", BigInteger),
    PrimaryKeyConstraint("schedule_id", "followed_id"),
    Index("horae_follows_followed", "followed_id"),
)

# How many runs of a schedule, or of a handler without one, were removed from horae_runs: added to those still there.
run_totals = Table(
    "horae_run_totals",
    metadata,
    Column("scope", String(8), nullable=False),  # schedule: name is its number; handler: runs without a schedule
    Column("name", Name, nullable=False),
    Column("run_count", BigInteger, nullable=False),
    Column("fail_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "name"),
)
