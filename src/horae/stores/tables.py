"""The tables, for everything that is not a hot statement.

All names begin with ``horae_`` so that the tables can live inside an application's own database. Instants are
integer microseconds, JSON is stored and read as text, states are words.
"""

# size: one list of all tables, so that a reader finds every column in one place

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
    cast,
    event,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import UserDefinedType

metadata = MetaData()


class Json(UserDefinedType[str]):
    """JSON kept as the text it came as, so that every database gives back the same bytes."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "JSON"

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return cast(column, Text)


@compiles(Json, "sqlite")
def _json_is_text_on_sqlite(*_: Any, **__: Any) -> str:
    return "TEXT"  # a column declared JSON would turn the text '1' into a number


@compiles(Json, "mysql")
@compiles(Json, "mariadb")
def _json_is_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"  # MariaDB's JSON is that and a check that refuses more than 32 levels; MySQL's changes the text


Number = BigInteger().with_variant(Integer, "sqlite")


class LongText(Text):
    """Text of any length; MariaDB's TEXT ends at 64 KiB."""


@compiles(LongText, "mysql")
@compiles(LongText, "mariadb")
def _long_text_on_mysql(*_: Any, **__: Any) -> str:
    return "LONGTEXT"


# Text is compared byte by byte, so that "A" and "a" are two names on every database. The dialect goes by two names.
BYTEWISE = {"charset": "utf8mb4", "collate": "utf8mb4_bin", "engine": "InnoDB"}
VENDOR_OPTIONS: dict[str, dict[str, Any]] = {"mysql": BYTEWISE, "mariadb": BYTEWISE}
JOBS_OPTIONS: dict[str, dict[str, Any]] = {
    "postgresql": {
        "with": {"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.0", "autovacuum_vacuum_threshold": "2000"}
    }
}


@event.listens_for(metadata, "before_create")
def _set_options(_: MetaData, connection: Connection, **__: Any) -> None:
    """Set the options that one database knows, where tables are made in it.

    As arguments of ``Table`` they would make every process import the dialects of all databases, 60 ms.
    """
    vendor = connection.dialect.name
    for table in metadata.tables.values():
        for option, value in (VENDOR_OPTIONS | (JOBS_OPTIONS if table is jobs else {})).get(vendor, {}).items():
            table.dialect_options[vendor][option] = value


Name = String(255)

jobs = Table(
    "horae_jobs",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("queue", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("held", String(12), nullable=False, server_default=""),
    Column("held_for", Name),  # what it waits for: a slot, other jobs, its lock, a handler that is not open
    Column("linked", SmallInteger, nullable=False, server_default="0"),  # its end concerns others
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
    sqlite_autoincrement=True,
)

# An attempt is written once, when it ends. The last one (``state`` is set) also carries the job's snapshot.
runs = Table(
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
    PrimaryKeyConstraint("job_id", "token"),
    Index("horae_runs_finished", "finished_at"),
    Index("horae_runs_schedule", "schedule_id", "job_id"),
)

keys = Table(
    "horae_keys",
    metadata,
    Column("scope", String(8), nullable=False),  # key: outlives the job; unique: holds while it is live
    Column("owner", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("job_id", Number, nullable=False),
    Column("request_hash", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "owner", "name"),
    Index("horae_keys_job", "job_id"),
    Index("horae_keys_created", "created_at"),
)

ledger = Table(
    "horae_ledger",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("name", Name, nullable=False),
    Column("result", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("job_id", "name"),
    Index("horae_ledger_created", "created_at"),
)

# One row for each taken place: the key makes a second holder of a place impossible. Place -1 is the lock of a name.
slots = Table(
    "horae_slots",
    metadata,
    Column("name", Name, nullable=False),
    Column("place", Integer, nullable=False),
    Column("job_id", Number),
    PrimaryKeyConstraint("name", "place"),
    Index("horae_slots_job", "job_id"),
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
limit_sources = Table(
    "horae_limit_sources",
    metadata,
    Column("name", Name, nullable=False),
    Column("app", Name, nullable=False),
    Column("source", String(8), nullable=False),
    Column("max_running", Integer),
    PrimaryKeyConstraint("name", "app"),
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

# A job that waits for others to succeed; stores/needs.py says what the states mean.
needs = Table(
    "horae_needs",
    metadata,
    Column("job_id", Number, nullable=False),
    Column("needed_id", Number, nullable=False),
    Column("policy", String(8), nullable=False, server_default="cancel"),  # what to do when the other never succeeds
    Column("state", String(8), nullable=False, server_default="open"),
    Column("concurrency_limit", Integer, nullable=False, server_default="1"),  # of the job; its history has no place
    PrimaryKeyConstraint("job_id", "needed_id"),
    Index("horae_needs_needed", "needed_id"),
    Index("horae_needs_state", "state"),
)

nodes = Table(
    "horae_nodes",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(40), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("queues", Json, nullable=False),
)

queues = Table(
    "horae_queues",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("sorting", String(12), nullable=False),
    Column("paused_at", BigInteger),
    Column("paused_by", Name),
    Column("pause_reason", Text),
)

audit = Table(
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
    Column("chain_seq", BigInteger),  # its place in its owner's chain, once it is sealed
    Column("hash", String(64)),
    Index("horae_audit_object", "object_id"),
    Index("horae_audit_owner", "owner", "id"),
    Index("horae_audit_chain", "chain_seq", "id"),
    sqlite_autoincrement=True,
)

# How far each owner's chain of audit entries has come; the row of nobody is the sealers' lock.
chains = Table(
    "horae_chains",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("hash", String(64), nullable=False),
)

# SQLite: when the boot to which its leases belong began, by the clock as it was when somebody first looked. One row.
lease_line = Table(
    "horae_lease_line",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("boot", String(64), nullable=False),
    Column("began_at", BigInteger, nullable=False),
)

locks = Table(
    "horae_locks",
    metadata,
    Column("name", Name, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("holder", Name, nullable=False, server_default=""),
)

# One row for each rate limit in use: the lock behind which its calls are counted.
rates = Table(
    "horae_rates",
    metadata,
    Column("name", Name, primary_key=True),
)

calls = Table(
    "horae_calls",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("rate", Name, nullable=False),
    Column("ticket", String(64), nullable=False, unique=True),
    Column("state", String(8), nullable=False),  # made: at is its instant; waiting: at is how long it keeps its place
    Column("at", BigInteger, nullable=False),
    Index("horae_calls_rate", "rate", "state", "at"),
)


# name, columns, condition: where the database has partial indexes
PARTIAL_INDEXES = (
    ("horae_jobs_waiting", "queue, band, run_at, id", "state = 'queued' AND held = ''"),
    ("horae_jobs_leases", "leased_until", "state = 'running'"),
    ("horae_jobs_slots", "held_for, band, run_at, id", "held = 'slot'"),
    ("horae_jobs_dead", "id", "state = 'dead'"),
    ("horae_jobs_schedule", "schedule_id, state", "schedule_id IS NOT NULL"),
    # Tenants' rows only, so that the traffic of an application without tenants pays nothing for them.
    ("horae_jobs_owned", "owner, queue, band, run_at, id", "state = 'queued' AND held = '' AND owner <> 'system'"),
    ("horae_jobs_owner", "owner, id", "owner <> 'system'"),
    # Tenants' jobs for handlers that are not open to tenants: their own workers claim them, opening releases them.
    ("horae_jobs_closed", "held_for, id", "held = 'closed'"),
    ("horae_jobs_closed_owned", "owner, queue, band, run_at, id", "state = 'queued' AND held = 'closed'"),
)
# … and where it has none. Both satisfy the whole ORDER BY of a claim, so that no future or overdue row is walked.
FULL_INDEXES = (
    ("horae_jobs_waiting", "queue, state, held, band, run_at, id", ""),
    ("horae_jobs_leases", "state, leased_until", ""),
    ("horae_jobs_slots", "held_for, held, band, run_at, id", ""),
    ("horae_jobs_schedule", "schedule_id, state", ""),
)


def job_indexes(partial: bool) -> dict[str, str]:
    """The statements that index the job table, by name."""
    if not partial:
        return {name: f"CREATE INDEX {name} ON horae_jobs ({columns})" for name, columns, _ in FULL_INDEXES}
    return {
        name: f"CREATE INDEX {name} ON horae_jobs ({columns}) WHERE {condition}"
        for name, columns, condition in PARTIAL_INDEXES
    }


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
    Column("title", Name),
    Column("toggled", SmallInteger),  # wins over enabled until a worker of the application starts again
    Index("horae_schedules_key", "owner", "schedule_key", unique=True),
    Index("horae_schedules_due", "next_due_at"),
    Index("horae_schedules_owner", "owner", "updated_at", "id"),
    sqlite_autoincrement=True,
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
)

# What the house's workers can run, and which of it tenants' jobs may reach. Nothing stored means: not open.
definitions = Table(
    "horae_definitions",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("queue", String(100), nullable=False),
    Column("tenants", SmallInteger, nullable=False),
    Column("app", Name, nullable=False),
    Column("stored_at", BigInteger, nullable=False),
    Column("stored_by", Name, nullable=False),
)

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
)

# One row for each tenant in use: the lock behind which its quotas are counted, and what is special about it.
owners = Table(
    "horae_owners",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("settings", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
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
)

# One agent's attention: every change of a lane happens behind the lock of its row.
lanes = Table(
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
    Column("kinds", Json),  # the kinds of tasks that its driver knows; empty: all
    Index("horae_lanes_name", "owner", "name", unique=True),
    sqlite_autoincrement=True,
)

tasks = Table(
    "horae_tasks",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("kind", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("focus", BigInteger, unique=True),  # the lane while it runs, else empty: two at once are impossible
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
    Index("horae_tasks_state", "lane_id", "state"),
    Index("horae_tasks_live", "state"),
    Index("horae_tasks_key", "lane_id", "task_key", unique=True),
    sqlite_autoincrement=True,
)

waits = Table(
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
    Index("horae_waits_task", "task_id"),
    Index("horae_waits_state", "state"),
    sqlite_autoincrement=True,
)

events = Table(
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
)

facts = Table(
    "horae_facts",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("lane_id", BigInteger, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("kind", String(24), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("data", LongText, nullable=False),
    Column("turn", Integer),
    Column("about", LongText),  # what Horae says of the data; empty in rows of before, where it is among them
    Index("horae_facts_task", "task_id", "turn", "id"),
    Index("horae_facts_lane", "lane_id"),
    sqlite_autoincrement=True,
)

journal = Table(
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
)
