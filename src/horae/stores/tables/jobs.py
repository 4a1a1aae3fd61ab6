"""Jobs, their history, and what belongs to them: names, steps done once, needs.

A field of a job that is set at enqueue, kept in the history and read back is one line of ``JOBS``, marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import compress
from operator import ne
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
)

from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.job import Job, NewJob, Run, Settlement, make_job
from horae.core.jobs.machinery import MACHINERY
from horae.stores.codecs import (
    BUDGET,
    COUNT,
    FLAG,
    HOT_JSON,
    INSTANT,
    LONG_TEXT,
    NAME,
    NUMBER,
    PRIORITY,
    RETRY,
    ROW_NUMBER,
    SPAN,
    TEXT,
    WORDS,
    Codec,
    Json,
    Name,
    Number,
    micros,
    text,
    to_micros,
)
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark, Reader, Writer, metadata

INSERTED, ENCODED = Mark.INSERTED, Mark.INSERTED | Mark.ENCODED
EVERY_RUN, FINAL_RUN, INTERNAL = Mark.EVERY_RUN, Mark.FINAL_RUN, Mark.INTERNAL

JOBS = Declaration(
    "horae_jobs",
    Job,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("queue", text(100), INSERTED | EVERY_RUN, required=True),
    Field("state", text(12), required=True),
    Field("held", text(12), INSERTED, required=True, server_default=""),
    Field("held_for", NAME, INSERTED),  # what it waits for: a slot, other jobs, its lock, a handler that is not open
    Field("has_dependents", FLAG, INSERTED, column="linked", required=True, server_default="0"),
    Field("priority", PRIORITY, ENCODED | FINAL_RUN, column="band", source="band", required=True),
    Field("run_at", INSTANT, INSERTED | FINAL_RUN, required=True),
    Field("planned_at", INSTANT, INSERTED | FINAL_RUN, required=True),
    Field("created_at", INSTANT, FINAL_RUN, required=True),
    Field("handler", text(200), INSERTED | EVERY_RUN, required=True),
    Field("owner", NAME, INSERTED | EVERY_RUN, required=True),
    Field("token", NUMBER, required=True, server_default="0"),
    Field("attempt", COUNT, required=True, server_default="0"),
    Field("max_attempts", COUNT, INSERTED | FINAL_RUN, required=True),
    Field("leased_until", INSTANT),
    Field("worker_id", text(200), EVERY_RUN),
    Field("started_at", INSTANT, EVERY_RUN),
    Field("finished_at", INSTANT),
    Field("timeout", SPAN, INSERTED | FINAL_RUN),
    Field("retry", RETRY, ENCODED | FINAL_RUN),
    Field("key", NAME, INSERTED | FINAL_RUN, column="idempotency_key"),
    Field("unique", NAME, INSERTED | FINAL_RUN, column="unique_key"),
    Field("concurrency_key", NAME, INSERTED | FINAL_RUN),
    Field("concurrency_limit", COUNT, INSERTED | INTERNAL, required=True, server_default="1"),
    Field("group", text(100), INSERTED | FINAL_RUN, column="group_name"),
    Field("schedule_id", NUMBER, INSERTED | EVERY_RUN),
    Field("fire_at", INSTANT, INSERTED | EVERY_RUN),
    Field("object_type", text(20), INSERTED | FINAL_RUN),
    Field("object_id", NAME, INSERTED | FINAL_RUN),
    Field("action", text(20), INSERTED | FINAL_RUN),
    Field("trace_id", text(64), INSERTED | EVERY_RUN),
    Field("tags", WORDS, ENCODED | FINAL_RUN),
    Field("payload", HOT_JSON, ENCODED | FINAL_RUN, required=True),
    Field("progress", HOT_JSON, FINAL_RUN),
    Field("checkpoint", HOT_JSON, ENCODED | FINAL_RUN),
    Field("progressed_at", INSTANT),
    Field("last_error", LONG_TEXT),
    Field("cancel_reason", TEXT, FINAL_RUN),
    Field("rerun_of", NUMBER, INSERTED | FINAL_RUN),
    Field("budget", BUDGET, ENCODED | FINAL_RUN),
    absent=("result",),  # only an ended job has one
    make=make_job,
    info=NEVER_AGAIN
    | {
        "postgresql": {
            "with": {"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.0", "autovacuum_vacuum_threshold": "2000"}
        }
    },
)
jobs = JOBS.table

# What every run row copies from the job, and what the final one copies beyond that.
_EVERY = {each.name: each.copy(required=each.required) for each in JOBS.condition(EVERY_RUN)}
_FINAL = {each.name: each.copy() for each in JOBS.condition(FINAL_RUN)}
ATTEMPT = tuple(each.column for each in _EVERY.values())
SNAPSHOT = tuple(each.column for each in _FINAL.values())
# Where copied columns stand in the table, as it has grown; a new one is the last.
_FIRST, _LATER = ("queue", "handler", "owner", "worker_id", "started_at"), ("trace_id", "schedule_id", "fire_at")
_PLACED = {*_FIRST, *_LATER}
# What an ending adds to the run row: the values of `ending_row`.
ENDING = ("outcome", "attempt", "error", "result", "next_action_at", "audit_event_id")

COUNTED = ("failed", "timed_out", "lost")  # endings that already count themselves; a run counts from 1 on
_RUN_NUMBER = Codec(Integer(), lambda attempt, outcome: attempt + (outcome not in COUNTED), beside="outcome")

# An attempt is written once, when it ends. The last one (``state`` is set) also carries the job's snapshot.
RUNS = Declaration(
    "horae_runs",
    Run,
    Field("job_number", ROW_NUMBER, column="job_id", required=True),
    Field("token", NUMBER, required=True),
    Field("outcome", text(12), required=True),
    Field("state", text(12), INTERNAL),
    Field("attempt", _RUN_NUMBER, required=True),
    *(_EVERY[name] for name in _FIRST),
    Field("finished_at", INSTANT, required=True),
    Field("error", LONG_TEXT),
    Field("result", HOT_JSON),
    Field("next_action_at", INSTANT),
    Field("audit_event_id", text(100)),
    *(_EVERY[name] for name in _LATER),
    *(each.copy(INTERNAL) for each in _FINAL.values()),
    *(each for name, each in _EVERY.items() if name not in _PLACED),
    # The fence is the token on the job's row. The end belongs to the key because the table is partitioned by it.
    PrimaryKeyConstraint("job_id", "token", "finished_at"),
    Index("horae_runs_finished", "finished_at", "job_id"),
)
runs = RUNS.table
# A run as the log tells it: without its result, and perhaps still under way, so that anything may be missing.
_TOLD = [each.copy(each.marks) for each in RUNS.fields if each.name != "result"]
LOGGED = Reader(runs, Run, _TOLD, absent=("result",))

_ENDED = [
    Field("number", ROW_NUMBER, column="job_id"),
    Field("token", NUMBER),
    Field("state", text(12)),
    Field("attempt", COUNT),
    Field("finished_at", INSTANT),
    Field("last_error", LONG_TEXT, column="error"),
    Field("result", HOT_JSON),
    *_EVERY.values(),
    *_FINAL.values(),
]
# The final run row read back as the job it ended; what is not in the history has its default.
FINISHED_JOBS = Reader(runs, Job, _ENDED, absent={each.name for each in fields(Job)} - {each.name for each in _ENDED})

keys = Table(
    "horae_keys",
    metadata,
    Column(
        "scope", String(8), nullable=False
    ),  # key: outlives the job; unique: holds while it is live; gather: an open job
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

# The same for a task of an agent: the scope is one turn or one action of it.
task_ledger = Table(
    "horae_task_ledger",
    metadata,
    Column("task_id", Number, nullable=False),
    Column("scope", String(16), nullable=False),
    Column("name", Name, nullable=False),
    Column("result", Json, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("task_id", "scope", "name"),
    Index("horae_task_ledger_created", "created_at"),
)

# A job that waits for others to succeed; stores/jobs/needs.py says what the states mean.
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


def _default_of(each: Field) -> Any:
    """Return what a column holds where an INSERT does not name it."""
    default = each.options.get("server_default")
    return default if default is None or not isinstance(each.codec.type, Integer) else int(default)


# What every job has to name comes first, so that the rest, which most jobs leave as it is, is compared at once.
_ALWAYS = [each for each in JOBS.condition(INSERTED) if each.required and _default_of(each) is None]
_SELDOM = [each for each in JOBS.condition(INSERTED) if each not in _ALWAYS]
_UNNAMED = [_default_of(each) for each in _SELDOM]
_NEW = Writer([*_ALWAYS, *_SELDOM])
_HEAD = len(_ALWAYS)
_NAMED = (*_NEW.columns[:_HEAD], "created_at")
INSERT_COLUMNS = (*_NEW.columns, "state", "created_at")


def new_job_row(job: NewJob, now: datetime) -> list[Any]:
    """Return the values of INSERT_COLUMNS."""
    return _NEW.values(job, "queued", micros(now))


def given_row(job: NewJob, now: datetime) -> dict[str, Any]:
    """Return the values of a new job by column, without those that are NULL: of thirty, most are."""
    row = zip(INSERT_COLUMNS, new_job_row(job, now), strict=True)
    return {name: value for name, value in row if value is not None}


def given_values(job: NewJob, now: datetime) -> tuple[tuple[str, ...], list[Any]]:
    """Return the columns that a new job has to name, and their values: of thirty about ten.

    The state is none of them: it is always 'queued'.
    """
    row = new_job_row(job, now)
    always, seldom = [*row[:_HEAD], row[-1]], row[_HEAD:-2]
    if seldom == _UNNAMED:
        return _NAMED, always
    is_given = list(map(ne, seldom, _UNNAMED))
    return (*_NAMED, *compress(_NEW.columns[_HEAD:], is_given)), [*always, *compress(seldom, is_given)]


def shared_row(job: NewJob, now: datetime) -> dict[str, Any]:
    """Return what jobs alike share, by column: all but the payload."""
    row = given_row(job, now)
    del row["payload"]
    return row


def ending_row(done: Settlement) -> tuple[Any, ...]:
    """Return the values of ENDING."""
    outcome = done.outcome
    return (
        outcome.ending,
        done.change.attempt,
        outcome.error if done.change.error is None else done.change.error,
        outcome.result,
        to_micros(outcome.next_action_at),
        outcome.audit_event_id,
    )


def running_run(job: Job) -> Run:
    """Return the attempt under way, which exists only in the job row."""
    return Run(
        job.number, job.token, "running", job.attempt + 1, job.handler, job.queue, job.owner, job.worker_id,
        job.started_at, None, trace_id=job.trace_id, schedule_id=job.schedule_id, fire_at=job.fire_at,
    )  # fmt: skip


# name, columns, condition: where the database has partial indexes
PARTIAL_INDEXES = (
    ("horae_jobs_waiting", "queue, band, run_at, id", "state = 'queued' AND held = ''"),
    ("horae_jobs_leases", "leased_until", "state = 'running'"),
    ("horae_jobs_slots", "held_for, band, run_at, id", "held = 'slot'"),
    ("horae_jobs_dead", "id", "state = 'dead'"),
    ("horae_jobs_died", "finished_at, id", "state = 'dead'"),
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
    ("horae_jobs_died", "finished_at, id", ""),  # NULL unless dead
    # Without state and held, so that a claim does not change it: a tenant's claim passes its own jobs alone.
    ("horae_jobs_owned", "owner, queue, band, run_at, id", ""),
)


# The same for the history: name, columns, condition. Most runs are of no schedule: no index of it holds them.
RUN_INDEXES = {
    True: (
        ("horae_runs_cancelled", "job_id", "state = 'cancelled'"),
        ("horae_runs_schedule", "schedule_id, job_id", "schedule_id IS NOT NULL"),
    ),
    False: (
        ("horae_runs_cancelled", "state, job_id", ""),
        ("horae_runs_schedule", "schedule_id, job_id", ""),
    ),
}


def job_indexes(partial: bool) -> dict[str, str]:
    """Return the statements that index jobs and their history, by name."""
    wanted = {"horae_jobs": PARTIAL_INDEXES if partial else FULL_INDEXES, "horae_runs": RUN_INDEXES[partial]}
    return {
        name: f"CREATE INDEX {name} ON {table} ({columns})" + (f" WHERE {condition}" if condition else "")
        for table, indexes in wanted.items()
        for name, columns, condition in indexes
    }


def job_chunks(new: Sequence[NewJob], most: int, most_text: int = 4_000_000) -> Iterator[Sequence[NewJob]]:
    """Cut a batch so that no statement outgrows what a database accepts in one packet."""
    start = size = 0
    payloads = new.each_payload() if type(new) is AlikeJobs else payloads_of(new)
    for index, length in enumerate(map(len, payloads)):
        if index > start and (index - start == most or size + length > most_text):
            yield new[start:index]
            start, size = index, 0
        size += length
    if start < len(new):
        yield new[start:]


def is_plain(jobs: Sequence[NewJob]) -> bool:
    """Return whether none of these jobs has a name or waits for another."""
    return not any(job.is_named for job in ((jobs.shared,) if type(jobs) is AlikeJobs else jobs))


def queues_of(jobs: Sequence[NewJob]) -> set[str]:
    return {jobs.shared.queue} if type(jobs) is AlikeJobs else {job.queue for job in jobs}


def woken_by(jobs: Sequence[NewJob]) -> set[str]:
    """Return the queues to wake for new jobs, also for those of Horae's own that come with them."""
    first = (jobs.shared,) if type(jobs) is AlikeJobs else jobs
    return queues_of(jobs) | ({MACHINERY} if any(job.expect is not None for job in first) else set())


def completed(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return the jobs with every payload made, so that a transaction that locks out others does not wait for one."""
    return AlikeJobs(jobs.shared, jobs.payloads) if type(jobs) is AlikeJobs else jobs


def payloads_of(jobs: Sequence[NewJob]) -> Sequence[str]:
    return jobs.payloads if type(jobs) is AlikeJobs else [job.payload for job in jobs]
