"""Everything that Horae keeps: the first version of the tables.

Revision ID: 0001_baseline
Revises:

A frozen copy of the tables as they were then: a migration never follows later changes of ``stores/tables``.

The history is partitioned by day on PostgreSQL and MariaDB. Where the role may not create triggers, a foreign key or a
routine, the migration goes on: `horae doctor` and `horae audit verify` say so, and `horae db migrate` makes them later,
with a role that may.
"""

# size: a frozen copy of the whole schema, kept in one piece on purpose

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Index,
    Integer,
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
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

revision = "0001_baseline"
down_revision = None
branch_labels = None
depends_on = None

metadata = MetaData()


class Json(UserDefinedType[str]):
    """JSON kept as the text it came as, so that every database gives back the same bytes."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"


@compiles(Json, "sqlite")
def _json_is_text_on_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"  # a column declared JSON would turn the text '1' into a number


@compiles(Json, "mysql")
@compiles(Json, "mariadb")
def _json_is_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"  # MariaDB's JSON is that and a check that refuses more than 32 levels; MySQL's changes the text


Number = BigInteger().with_variant(Integer, "sqlite")
LongText = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE: dict[str, Any] = {
    f"{vendor}_{option}": value
    for vendor in ("mysql", "mariadb")
    for option, value in (("charset", "utf8mb4"), ("collate", "utf8mb4_bin"), ("engine", "InnoDB"))
}
Name = String(255)

# Live and dead jobs.
Table(
    "horae_jobs",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("queue", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("held", String(12), nullable=False, server_default=""),
    Column("held_for", Name),
    Column("linked", SmallInteger, nullable=False, server_default="0"),
    Column("band", SmallInteger, nullable=False),
    Column("run_at", BigInteger, nullable=False),
    Column("planned_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("handler", String(200), nullable=False),
    Column("owner", Name, nullable=False),
    Column("token", BigInteger, nullable=False, server_default="0"),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer, nullable=False),
    Column("leased_until", BigInteger),
    Column("worker_id", String(200)),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("timeout", BigInteger),
    Column("retry", Json),
    Column("idempotency_key", Name),
    Column("unique_key", Name),
    Column("concurrency_key", Name),
    Column("concurrency_limit", Integer, nullable=False, server_default="1"),
    Column("group_name", String(100)),
    Column("schedule_id", BigInteger),
    Column("fire_at", BigInteger),
    Column("object_type", String(20)),
    Column("object_id", Name),
    Column("action", String(20)),
    Column("trace_id", String(64)),
    Column("tags", Json),
    Column("payload", Json, nullable=False),
    Column("progress", Json),
    Column("checkpoint", Json),
    Column("progressed_at", BigInteger),
    Column("last_error", LongText),
    Column("cancel_reason", Text),
    Column("rerun_of", BigInteger),
    sqlite_autoincrement=True,
    postgresql_with={
        "fillfactor": "70",
        "autovacuum_vacuum_scale_factor": "0.0",
        "autovacuum_vacuum_threshold": "2000",
    },
    **BYTEWISE,
)

# An attempt is written once, when it ends. The last one (``state`` is set) also carries the job's snapshot.
Table(
    "horae_runs",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("outcome", String(12), nullable=False),
    Column("state", String(12)),
    Column("attempt", Integer, nullable=False),
    Column("queue", String(100), nullable=False),
    Column("handler", String(200), nullable=False),
    Column("owner", Name, nullable=False),
    Column("worker_id", String(200)),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger, nullable=False),
    Column("error", LongText),
    Column("result", Json),
    Column("next_action_at", BigInteger),
    Column("audit_event_id", String(100)),
    Column("trace_id", String(64)),
    Column("schedule_id", BigInteger),
    Column("fire_at", BigInteger),
    Column("band", SmallInteger),
    Column("run_at", BigInteger),
    Column("planned_at", BigInteger),
    Column("created_at", BigInteger),
    Column("max_attempts", Integer),
    Column("timeout", BigInteger),
    Column("retry", Json),
    Column("idempotency_key", Name),
    Column("unique_key", Name),
    Column("concurrency_key", Name),
    Column("group_name", String(100)),
    Column("object_type", String(20)),
    Column("object_id", Name),
    Column("action", String(20)),
    Column("tags", Json),
    Column("payload", Json),
    Column("progress", Json),
    Column("checkpoint", Json),
    Column("cancel_reason", Text),
    Column("rerun_of", BigInteger),
    PrimaryKeyConstraint("job_id", "token", "finished_at"),
    Index("horae_runs_finished", "finished_at"),
    Index("horae_runs_schedule", "schedule_id", "job_id"),
    postgresql_partition_by="RANGE (finished_at)",
    **BYTEWISE,
)

Table(
    "horae_keys",
    metadata,
    Column("scope", String(8), nullable=False),
    Column("owner", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("request_hash", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "owner", "name"),
    Index("horae_keys_created", "created_at"),
    Index("horae_keys_job", "job_id"),
    **BYTEWISE,
)

Table(
    "horae_ledger",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("name", Name, nullable=False),
    Column("result", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "name"),
    Index("horae_ledger_created", "created_at"),
    **BYTEWISE,
)

# One row for each taken place: the key makes a second holder of a place impossible. Place -1 is the lock of a name.
Table(
    "horae_slots",
    metadata,
    Column("name", Name, nullable=False),
    Column("place", Integer, nullable=False),
    Column("job_id", Number),
    PrimaryKeyConstraint("name", "place"),
    Index("horae_slots_job", "job_id"),
    **BYTEWISE,
)

# How many jobs may run at once: "queue:mail", "group:etl", "global".
Table(
    "horae_limits",
    metadata,
    Column("name", Name, primary_key=True),
    Column("max_running", Integer, nullable=False),
    **BYTEWISE,
)

Table(
    "horae_limit_sources",
    metadata,
    Column("name", Name, nullable=False),
    Column("app", Name, nullable=False),
    Column("source", String(8), nullable=False),
    Column("max_running", Integer),
    PrimaryKeyConstraint("name", "app"),
    **BYTEWISE,
)

Table(
    "horae_needs",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("needed_id", Number, nullable=False),
    Column("policy", String(8), nullable=False, server_default="cancel"),
    Column("state", String(8), nullable=False, server_default="open"),
    Column("concurrency_limit", Integer, nullable=False, server_default="1"),
    PrimaryKeyConstraint("job_id", "needed_id"),
    Index("horae_needs_needed", "needed_id"),
    Index("horae_needs_state", "state"),
    **BYTEWISE,
)

Table(
    "horae_definitions",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("queue", String(100), nullable=False),
    Column("tenants", SmallInteger, nullable=False),
    Column("app", Name, nullable=False),
    Column("stored_at", BigInteger, nullable=False),
    Column("stored_by", Name, nullable=False),
    **BYTEWISE,
)

Table(
    "horae_nodes",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("host", Name, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(40), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("queues", Json, nullable=False),
    Column("app_release", String(100)),
    **BYTEWISE,
)

Table(
    "horae_queues",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("sorting", String(12), nullable=False),
    Column("paused_at", BigInteger),
    Column("paused_by", Name),
    Column("pause_reason", Text),
    **BYTEWISE,
)

Table(
    "horae_lease_line",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("boot", String(64), nullable=False),
    Column("began_at", BigInteger, nullable=False),
    **BYTEWISE,
)

Table(
    "horae_acts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("verb", String(12), nullable=False),
    Column("state", String(12), nullable=False),
    Column("wanted", Text, nullable=False),
    Column("highest", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("actor", Name, nullable=False),
    Column("owner", Name, nullable=False),
    Column("queues", Json),
    Column("reason", Text, nullable=False),
    Column("run_at", BigInteger),
    Column("undoes", BigInteger),
    Column("job_id", BigInteger),
    Column("matched", Integer, nullable=False),
    Column("more", SmallInteger, nullable=False),
    Column("changed", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("kept", Integer, nullable=False),
    Column("skipped_for", Json, nullable=False),
    Column("sample", Json, nullable=False),
    Column("finished_at", BigInteger),
    Index("horae_acts_owner", "owner", "id"),
    Index("horae_acts_state", "state", "finished_at"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

Table(
    "horae_act_moves",
    metadata,
    Column("act_id", Number, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("run_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("act_id", "job_id"),
    **BYTEWISE,
)

Table(
    "horae_locks",
    metadata,
    Column("name", Name, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("holder", Name, nullable=False, server_default=""),
    **BYTEWISE,
)

# One row for each rate limit in use: the lock behind which its calls are counted.
Table(
    "horae_rates",
    metadata,
    Column("name", Name, primary_key=True),
    **BYTEWISE,
)

Table(
    "horae_calls",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("rate", Name, nullable=False),
    Column("ticket", String(64), nullable=False, unique=True),
    Column("state", String(8), nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("horae_calls_rate", "rate", "state", "at"),
    **BYTEWISE,
)

Table(
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
    Column("expression", Name, nullable=False),
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
    Column("follows", Json, nullable=False),
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
    Column("next_due_at", BigInteger),
    Column("tzdata", String(20), nullable=False),
    Column("fire_count", Integer, nullable=False),
    Column("last_fire_at", BigInteger),
    Column("sources", Json, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("title", Name),
    Column("toggled", SmallInteger),
    Index("horae_schedules_due", "next_due_at"),
    Index("horae_schedules_key", "owner", "schedule_key", unique=True),
    Index("horae_schedules_owner", "owner", "updated_at", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

# Every due fire leaves one record. The key makes a second job for the same occurrence impossible.
Table(
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
    postgresql_partition_by="RANGE (fire_at)",
    **BYTEWISE,
)

Table(
    "horae_follows",
    metadata,
    Column("schedule_id", BigInteger, nullable=False),
    Column("followed_id", BigInteger, nullable=False),
    Column("succeeded_at", BigInteger),
    PrimaryKeyConstraint("schedule_id", "followed_id"),
    Index("horae_follows_followed", "followed_id"),
    **BYTEWISE,
)

Table(
    "horae_run_totals",
    metadata,
    Column("scope", String(8), nullable=False),
    Column("name", Name, nullable=False),
    Column("run_count", BigInteger, nullable=False),
    Column("fail_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "name"),
    **BYTEWISE,
)

# Who may call the service. Only a digest of the secret is kept.
Table(
    "horae_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("owner", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("queues", Json, nullable=False),
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

Table(
    "horae_owners",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("settings", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    **BYTEWISE,
)

# Sealed with a key that is not in the database.
Table(
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

# One agent's attention: every change of a lane happens behind the lock of its row.
Table(
    "horae_lanes",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("owner", Name, nullable=False),
    Column("name", String(200), nullable=False),
    Column("epoch", BigInteger, nullable=False, server_default="0"),
    Column("driver", String(200)),
    Column("leased_until", BigInteger),
    Column("seq", BigInteger, nullable=False, server_default="0"),
    Column("override", Json),
    Column("rules", Json),
    Column("created_at", BigInteger, nullable=False),
    Column("kinds", Json),
    Index("horae_lanes_name", "owner", "name", unique=True),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

Table(
    "horae_tasks",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("kind", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("focus", BigInteger, unique=True),
    Column("base", SmallInteger, nullable=False),
    Column("payload", LongText, nullable=False),
    Column("phase", String(8), nullable=False),
    Column("context", LongText),
    Column("note", Text),
    Column("task_key", Name),
    Column("created_at", BigInteger, nullable=False),
    Column("start_at", BigInteger),
    Column("ready_since", BigInteger),
    Column("due_by", BigInteger),
    Column("expires_at", BigInteger),
    Column("place", Integer),
    Column("turn", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("intent", LongText),
    Column("effect", String(16)),
    Column("holds", SmallInteger, nullable=False),
    Column("held_since", BigInteger),
    Column("cancel_requested", SmallInteger, nullable=False),
    Column("clean_up", Integer),
    Column("errors", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("result", LongText),
    Column("reason", Text),
    Column("start_job", BigInteger),
    Column("deadline_job", BigInteger),
    CheckConstraint("(state = 'running') = (focus IS NOT NULL)", name="horae_tasks_focus"),
    Index("horae_tasks_key", "lane_id", "task_key", unique=True),
    Index("horae_tasks_live", "state"),
    Index("horae_tasks_state", "lane_id", "state"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

Table(
    "horae_waits",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("wait_key", String(200), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("state", String(12), nullable=False),
    Column("deadline", BigInteger, nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("job_id", BigInteger),
    Column("closed_at", BigInteger),
    Column("event", BigInteger),
    Column("intent", LongText),
    Column("intent_hash", String(64)),
    Column("grant_key", String(64)),
    Column("granted_at", BigInteger),
    Column("used_at", BigInteger),
    Column("decided_by", Name),
    Index("horae_waits_key", "lane_id", "wait_key", "state"),
    Index("horae_waits_state", "state"),
    Index("horae_waits_task", "task_id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

Table(
    "horae_events",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("event_key", String(200), nullable=False),
    Column("event_id", Name),
    Column("state", String(8), nullable=False),
    Column("data", LongText, nullable=False),
    Column("posted_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("reason", Text),
    Column("task_id", BigInteger),
    Column("actor", Name, nullable=False),
    Index("horae_events_id", "lane_id", "event_id", unique=True),
    Index("horae_events_key", "lane_id", "event_key", "state", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

Table(
    "horae_facts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("kind", String(24), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("data", LongText, nullable=False),
    Column("turn", Integer),
    Column("about", LongText),
    Index("horae_facts_lane", "lane_id"),
    Index("horae_facts_task", "task_id", "turn", "id"),
    sqlite_autoincrement=True,
    **BYTEWISE,
)

Table(
    "horae_journal",
    metadata,
    Column("lane_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("cause", String(40), nullable=False),
    Column("task_id", BigInteger),
    Column("state_before", String(12)),
    Column("state_after", String(12)),
    Column("changes", LongText, nullable=False),
    Column("told", LongText, nullable=False),
    Column("control", String(64), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("hash", String(64)),
    PrimaryKeyConstraint("lane_id", "seq"),
    **BYTEWISE,
)

Table(
    "horae_audit",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("actor", Name, nullable=False),
    Column("verb", String(40), nullable=False),
    Column("object_type", String(40), nullable=False),
    Column("object_id", Name, nullable=False),
    Column("owner", Name, nullable=False),
    Column("reason", LongText),
    Column("state_before", Json, nullable=False),
    Column("state_after", Json, nullable=False),
    Column("evidence", Json, nullable=False),
    Column("chain_seq", BigInteger),
    Column("hash", String(64)),
    Index("horae_audit_chain", "chain_seq", "id"),
    Index("horae_audit_object", "object_id"),
    Index("horae_audit_owner", "owner", "id"),
    Index("horae_audit_owner_chain", "owner", "chain_seq", "id"),
    sqlite_autoincrement=True,
    postgresql_with={"autovacuum_vacuum_scale_factor": "0.02"},
    **BYTEWISE,
)

# The head of each owner's chain of audit entries.
Table(
    "horae_chains",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
    **BYTEWISE,
)

# Always empty. Its foreign key, made below, makes InnoDB refuse to truncate the audit.
Table(
    "horae_audit_guard",
    metadata,
    Column("entry", Number, primary_key=True, autoincrement=False),
    **BYTEWISE,
)

Table(
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
    **BYTEWISE,
)

Table(
    "horae_roll_up",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("rolled_until", BigInteger, nullable=False),
    Column("ended_until", BigInteger, nullable=False),
    Column("checked_until", BigInteger, nullable=False),
    Column("check_at", BigInteger, nullable=False),
    Column("sampled_at", BigInteger, nullable=False),
    Column("minutes_from", BigInteger, nullable=False),
    Column("hours_from", BigInteger, nullable=False),
    Column("days_from", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False),
    **BYTEWISE,
)

Table(
    "horae_error_groups",
    metadata,
    Column("owner", Name, nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("handler", String(200), nullable=False),
    Column("kind", Name, nullable=False),
    Column("title", Text, nullable=False),
    Column("raised_in", Name, nullable=False),
    Column("message", Text, nullable=False),
    Column("error_count", BigInteger, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Column("last_seen", BigInteger, nullable=False),
    Column("sample_job", BigInteger, nullable=False),
    Column("sample_token", BigInteger, nullable=False),
    Column("first_release", String(100)),
    Column("last_release", String(100)),
    Column("muted_at", BigInteger),
    Column("muted_until", BigInteger),
    Column("muted_by", Name),
    Column("mute_reason", Text),
    PrimaryKeyConstraint("owner", "fingerprint"),
    Index("horae_error_groups_owner", "owner", "last_seen", "fingerprint"),
    Index("horae_error_groups_seen", "last_seen", "owner", "fingerprint"),
    **BYTEWISE,
)

Table(
    "horae_error_counts",
    metadata,
    Column("grain", String(6), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("owner", Name, nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("error_count", BigInteger, nullable=False),
    PrimaryKeyConstraint("grain", "at", "owner", "fingerprint"),
    Index("horae_error_counts_group", "owner", "fingerprint", "grain", "at"),
    **BYTEWISE,
)

Table(
    "horae_retention",
    metadata,
    Column("queue", String(100), nullable=False),
    Column("outcome", String(12), nullable=False),
    Column("keep_for", BigInteger, nullable=False),
    Column("stored_at", BigInteger),
    Column("stored_by", Name, nullable=False),
    PrimaryKeyConstraint("queue", "outcome"),
    **BYTEWISE,
)

Table(
    "horae_retention_walks",
    metadata,
    Column("keep_for", BigInteger, primary_key=True, autoincrement=False),
    Column("walked_until", BigInteger, nullable=False),
    **BYTEWISE,
)

# A partition whose runs were added to horae_run_totals and which is dropped next.
Table(
    "horae_counted_partitions",
    metadata,
    Column("table_name", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("begins_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("table_name", "name"),
    **BYTEWISE,
)

Table(
    "horae_chores",
    metadata,
    Column("name", Name, primary_key=True),
    Column("due_at", BigInteger, nullable=False),
    Column("leased_until", BigInteger, nullable=False, server_default="0"),
    Column("token", String(64), nullable=False, server_default=""),
    Column("holder", Name, nullable=False, server_default=""),
    Column("done_at", BigInteger),
    **BYTEWISE,
)

# table, name, columns, condition: where the database has partial indexes
PARTIAL_INDEXES = (
    ("horae_jobs", "horae_jobs_waiting", "queue, band, run_at, id", "state = 'queued' AND held = ''"),
    ("horae_jobs", "horae_jobs_leases", "leased_until", "state = 'running'"),
    ("horae_jobs", "horae_jobs_slots", "held_for, band, run_at, id", "held = 'slot'"),
    ("horae_jobs", "horae_jobs_dead", "id", "state = 'dead'"),
    ("horae_jobs", "horae_jobs_schedule", "schedule_id, state", "schedule_id IS NOT NULL"),
    (
        "horae_jobs",
        "horae_jobs_owned",
        "owner, queue, band, run_at, id",
        "state = 'queued' AND held = '' AND owner <> 'system'",
    ),
    ("horae_jobs", "horae_jobs_owner", "owner, id", "owner <> 'system'"),
    ("horae_jobs", "horae_jobs_closed", "held_for, id", "held = 'closed'"),
    (
        "horae_jobs",
        "horae_jobs_closed_owned",
        "owner, queue, band, run_at, id",
        "state = 'queued' AND held = 'closed'",
    ),
    ("horae_audit", "horae_audit_unsealed", "id", "chain_seq IS NULL"),
    ("horae_journal", "horae_journal_unsealed", "lane_id", "hash IS NULL"),
)
# … and where it has none. Both satisfy the whole ORDER BY of a claim, so that no future or overdue row is walked.
FULL_INDEXES = (
    ("horae_jobs", "horae_jobs_waiting", "queue, state, held, band, run_at, id", ""),
    ("horae_jobs", "horae_jobs_leases", "state, leased_until", ""),
    ("horae_jobs", "horae_jobs_slots", "held_for, held, band, run_at, id", ""),
    ("horae_jobs", "horae_jobs_schedule", "schedule_id, state", ""),
)


def upgrade() -> None:
    """Every step may be repeated: a database without transactional DDL may have stopped halfway."""
    connection = op.get_bind()
    vendor = connection.dialect.name
    if vendor == "sqlite" and not inspect(connection).has_table(GUARD):
        connection.exec_driver_sql(SQLITE_GUARD)  # SQLite cannot add the foreign key later
    metadata.create_all(connection, checkfirst=True)
    for index in [index for table in metadata.sorted_tables for index in table.indexes]:
        index.create(connection, checkfirst=True)  # a table that was there already may still want its indexes
    for table, name, columns, condition in PARTIAL_INDEXES if vendor in ("postgresql", "sqlite") else FULL_INDEXES:
        if name not in {index["name"] for index in inspect(connection).get_indexes(table)}:
            where = f" WHERE {condition}" if condition else ""
            connection.execute(text(f"CREATE INDEX {name} ON {table} ({columns}){where}"))
    guard_audit(connection)
    if vendor == "postgresql":
        partition_on_postgres(connection)
    elif vendor != "sqlite":
        partition_on_mysql(connection)


# -- the guard of the audit --------------------------------------------------------------------------------------------

GUARD = "horae_audit_guard"
# The foreign key stands beside the table, so that the table is made where the key may not be. SQLite cannot add one.
SQLITE_GUARD = (
    f"CREATE TABLE {GUARD} (entry INTEGER NOT NULL, PRIMARY KEY (entry), "
    "CONSTRAINT horae_audit_guard_entry FOREIGN KEY(entry) REFERENCES horae_audit (id))"
)
REFERENCE = (
    f"ALTER TABLE {GUARD} ADD CONSTRAINT horae_audit_guard_entry FOREIGN KEY (entry) REFERENCES horae_audit (id)"
)
NOT_PERMITTED = {"42501", 1044, 1142, 1143, 1227, 1370, 1419}

MESSAGE = "horae_audit is append-only: entries are neither changed nor deleted"
KEPT = ("id", "at", "actor", "verb", "object_type", "object_id", "owner", "reason")
KEPT_JSON = ("state_before", "state_after", "evidence")
NAMES = ("horae_audit_no_change", "horae_audit_no_delete", "horae_audit_no_replace", "horae_audit_no_truncate")
CHANGE, DELETE, REPLACE, TRUNCATE = NAMES


def changed(differs: str, json: str = "{}") -> str:
    """Return a condition: the entry is sealed already, or something else than its seal would change."""
    pairs = [differs.format(new=f"NEW.{name}", old=f"OLD.{name}") for name in KEPT]
    pairs += [differs.format(new=json.format(f"NEW.{name}"), old=json.format(f"OLD.{name}")) for name in KEPT_JSON]
    return " OR ".join(["OLD.chain_seq IS NOT NULL", "OLD.hash IS NOT NULL", *pairs])


def sqlite_triggers() -> list[list[str]]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END"
    is_known = "EXISTS (SELECT 1 FROM horae_audit WHERE id = NEW.id)"  # INSERT OR REPLACE
    return [
        [f"CREATE TRIGGER {CHANGE} BEFORE UPDATE ON horae_audit WHEN {changed('{new} IS NOT {old}')} {refuse}"],
        [f"CREATE TRIGGER {DELETE} BEFORE DELETE ON horae_audit {refuse}"],
        [f"CREATE TRIGGER {REPLACE} BEFORE INSERT ON horae_audit WHEN {is_known} {refuse}"],
    ]


def postgres_triggers() -> list[list[str]]:
    function = (
        "CREATE OR REPLACE FUNCTION horae_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN RAISE EXCEPTION '{MESSAGE}' USING ERRCODE = 'restrict_violation'; END$$"
    )
    events = {
        CHANGE: f"UPDATE ON horae_audit FOR EACH ROW WHEN ({changed('{new} IS DISTINCT FROM {old}', '{}::text')})",
        DELETE: "DELETE ON horae_audit FOR EACH ROW",
        TRUNCATE: "TRUNCATE ON horae_audit FOR EACH STATEMENT",
    }
    return [
        [function, f"CREATE TRIGGER {name} BEFORE {event} EXECUTE FUNCTION horae_audit_refuse()"]
        for name, event in events.items()
    ]


def mysql_triggers() -> list[list[str]]:
    signal = f"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{MESSAGE}'"
    condition = changed("NOT (BINARY {new} <=> BINARY {old})")
    row = "ON horae_audit FOR EACH ROW"
    return [
        [f"CREATE TRIGGER {CHANGE} BEFORE UPDATE {row} BEGIN IF {condition} THEN {signal}; END IF; END"],
        [f"CREATE TRIGGER {DELETE} BEFORE DELETE {row} {signal}"],
    ]


TRIGGERS = {
    "sqlite": sqlite_triggers, "postgresql": postgres_triggers, "mysql": mysql_triggers, "mariadb": mysql_triggers,
}  # fmt: skip


def guard_audit(connection: Connection) -> None:
    """Let the database itself refuse to change, delete or truncate audit entries."""
    vendor = connection.dialect.name
    on = " ON horae_audit" if vendor == "postgresql" else ""
    for name in NAMES:
        permitted(connection, [f"DROP TRIGGER IF EXISTS {name}{on}"])
    if vendor != "sqlite" and not inspect(connection).get_foreign_keys(GUARD):
        permitted(connection, [REFERENCE])
    for statements in TRIGGERS[vendor]():
        permitted(connection, statements)


def permitted(connection: Connection, statements: Sequence[str]) -> None:
    """Execute statements; leave them out where the role may not."""
    try:
        with connection.begin_nested() if connection.dialect.name == "postgresql" else nullcontext():
            for statement in statements:
                connection.exec_driver_sql(statement)
    except DBAPIError as problem:
        number = problem.orig.args[0] if problem.orig is not None and problem.orig.args else None
        if getattr(problem.orig, "sqlstate", None) not in NOT_PERMITTED and number not in NOT_PERMITTED:
            raise


# -- partitions --------------------------------------------------------------------------------------------------------

DAY = 86_400_000_000
AHEAD = 14
PARTITIONED_BY = {"horae_runs": "finished_at", "horae_fires": "fire_at"}

# Whatever changes partitions on PostgreSQL goes through this function. It acts with the rights of the role that
# migrated, for those who may delete from the table anyway.
POSTGRES_ROUTINE = """
CREATE OR REPLACE FUNCTION {schema}.horae_partition(
    verb text, parent text, name text, low bigint, high bigint, patience text
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $body$
DECLARE
    part text := parent || '_' || name;
    rest text := parent || '_rest';
    past text := parent || '_old';
    ordered text := CASE parent WHEN 'horae_runs' THEN 'finished_at' ELSE 'fire_at' END;
    made text;
    rule record;
BEGIN
    IF parent NOT IN ('horae_runs', 'horae_fires') OR name !~ '^(p[0-9]{{8}}|old)$' THEN
        RAISE EXCEPTION 'horae_partition: % is no partition of Horae', part;
    END IF;
    IF NOT has_table_privilege(session_user, parent, 'DELETE') THEN
        RAISE EXCEPTION 'permission denied for table %', parent USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM set_config('lock_timeout', patience, true);
    PERFORM pg_advisory_xact_lock(4715113083);
    IF verb = 'add' THEN
        IF to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent);
        made := part;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
    ELSIF verb = 'split' THEN
        IF to_regclass(part) IS NOT NULL THEN
            RETURN false;
        END IF;
        EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, rest);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', rest, part);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', rest, parent);
        EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I >= %s OR %I < %s RETURNING *) '
            'INSERT INTO %I SELECT * FROM moved', part, ordered, high, ordered, low, rest);
        made := rest;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, low, high);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', parent, rest);
    ELSIF verb = 'drop' THEN
        IF to_regclass(part) IS NULL OR name = 'old' THEN
            RETURN false;
        END IF;
        EXECUTE format('DROP TABLE %I', part);
        EXECUTE 'DELETE FROM horae_counted_partitions WHERE table_name = $1 AND name = $2' USING parent, name;
        IF pg_get_expr((SELECT relpartbound FROM pg_class WHERE oid = past::regclass), past::regclass)
            ~ format('TO \\(''?%s''?\\)', low) THEN
            EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, past);
            EXECUTE format('WITH moved AS (DELETE FROM %I WHERE %I < %s RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', rest, ordered, high, past);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%s)', parent, past, high);
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS horae_bound, '
                'ADD CONSTRAINT horae_bound CHECK (%I < %s) NOT VALID', past, ordered, high);
        END IF;
    ELSIF verb = 'validate' THEN
        EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT horae_bound', past);
    ELSE
        RAISE EXCEPTION 'horae_partition: unknown verb %', verb;
    END IF;
    IF made IS NOT NULL AND (SELECT relrowsecurity FROM pg_class WHERE oid = parent::regclass) THEN
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', made);
        FOR rule IN SELECT p.policyname, p.qual, p.with_check FROM pg_policies p
            WHERE p.schemaname = current_schema() AND p.tablename = parent LOOP
            EXECUTE format('CREATE POLICY %I ON %I USING (%s) WITH CHECK (%s)',
                rule.policyname, made, rule.qual, rule.with_check);
        END LOOP;
    END IF;
    RETURN true;
END $body$
"""

# MariaDB: for roles that may not alter tables, if they were granted EXECUTE.
MYSQL_ROUTINE = """
CREATE PROCEDURE horae_partition(
    verb VARCHAR(8), parent VARCHAR(64), name VARCHAR(64), low BIGINT, high BIGINT, patience INT
) SQL SECURITY DEFINER
BEGIN
    IF parent NOT IN ('horae_runs', 'horae_fires') OR name NOT REGEXP '^p[0-9]{8}$'
        OR verb NOT IN ('add', 'merge', 'drop') THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'horae_partition: no partition of Horae';
    END IF;
    SET SESSION lock_wait_timeout = patience;
    SET @horae_change = CASE verb
        WHEN 'add' THEN CONCAT('REORGANIZE PARTITION p_rest INTO (PARTITION ', name, ' VALUES LESS THAN (', high,
            '), PARTITION p_rest VALUES LESS THAN MAXVALUE)')
        WHEN 'merge' THEN CONCAT('REORGANIZE PARTITION p_old, ', name, ' INTO (PARTITION p_old VALUES LESS THAN (',
            high, '))')
        ELSE CONCAT('DROP PARTITION ', name) END;
    IF verb = 'merge' THEN
        SET @horae_first = CONCAT('ALTER TABLE ', parent, ' TRUNCATE PARTITION ', name);
        PREPARE horae_statement FROM @horae_first;
        EXECUTE horae_statement;
    END IF;
    SET @horae_change = CONCAT('ALTER TABLE ', parent, ' ', @horae_change);
    PREPARE horae_statement FROM @horae_change;
    EXECUTE horae_statement;
    DEALLOCATE PREPARE horae_statement;
END
"""


def partition_on_postgres(connection: Connection) -> None:
    run = connection.exec_driver_sql
    schema = run("SELECT quote_ident(current_schema())").scalar_one()
    run(POSTGRES_ROUTINE.format(schema=schema).replace("%", "%%"))
    cut = tomorrow(connection, "(extract(epoch from clock_timestamp()) * 1000000)::bigint")
    for table, by in PARTITIONED_BY.items():
        old = f"{table}_old"
        if inspect(connection).has_table(old):
            continue
        run(f"CREATE TABLE {old} PARTITION OF {table} FOR VALUES FROM (MINVALUE) TO ({cut})")
        run(f"ALTER TABLE {old} ADD CONSTRAINT horae_bound CHECK ({by} < {cut})")
        run(f"CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT")
        for name, low, high in days(cut):
            run(f"CREATE TABLE {table}_{name} PARTITION OF {table} FOR VALUES FROM ({low}) TO ({high})")


def partition_on_mysql(connection: Connection) -> None:
    run = connection.exec_driver_sql
    cut = tomorrow(connection, "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
    is_partitioned = (
        "SELECT 1 FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = :table "
        "AND partition_name IS NOT NULL LIMIT 1"
    )
    for table, by in PARTITIONED_BY.items():
        if connection.execute(text(is_partitioned), {"table": table}).scalar():
            continue
        parts = [f"PARTITION {name} VALUES LESS THAN ({high})" for name, _, high in days(cut)]
        parts = [f"PARTITION p_old VALUES LESS THAN ({cut})", *parts, "PARTITION p_rest VALUES LESS THAN MAXVALUE"]
        run(f"ALTER TABLE {table} PARTITION BY RANGE ({by}) ({', '.join(parts)})")
    try:
        run("DROP PROCEDURE IF EXISTS horae_partition")
        run(MYSQL_ROUTINE)
    except DBAPIError:
        pass  # without the right to make routines; a role that may alter tables does without it


def days(cut: int) -> Iterator[tuple[str, int, int]]:
    """Return name, lower and upper bound of the first partitions."""
    for low in range(cut, cut + AHEAD * DAY, DAY):
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=low)
        yield f"p{day:%Y%m%d}", low, low + DAY


def tomorrow(connection: Connection, now: str) -> int:
    today = int(connection.execute(text(f"SELECT {now}")).scalar_one()) // DAY * DAY
    return today + DAY
