"""Rows to values and back: with tables.py the only place that knows column names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from horae.core import instants
from horae.core.audit import Entry
from horae.core.instants import micros
from horae.core.jobs import PRIORITIES, Job, NewJob, Run, Settlement, make_job
from horae.core.retry import Retry
from horae.ports import Node, Queue
from horae.stores.tables import jobs, runs

# The columns of a job, in the order in which ``job_from`` reads them; ``result`` exists only once it has ended.
JOB_COLUMNS = (
    "id", "handler", "payload", "state", "queue", "band", "run_at", "planned_at", "created_at", "owner", "attempt",
    "max_attempts", "retry", "timeout", "token", "worker_id", "leased_until", "started_at", "finished_at",
    "idempotency_key", "unique_key", "concurrency_key", "held", "tags", "trace_id", "progress", "checkpoint",
    "last_error", "cancel_reason", "object_type", "object_id", "action", "held_for", "linked", "group_name",
    "schedule_id", "fire_at", "progressed_at",
)  # fmt: skip
JSON_COLUMNS = frozenset({"payload", "retry", "tags", "progress", "checkpoint"})

# What a final run row copies from the job, beyond what every run row has.
SNAPSHOT = (
    "band", "run_at", "planned_at", "created_at", "max_attempts", "timeout", "retry", "idempotency_key", "unique_key",
    "concurrency_key", "group_name", "object_type", "object_id", "action", "tags", "payload", "progress", "checkpoint",
    "cancel_reason",
)  # fmt: skip
ATTEMPT = ("queue", "handler", "owner", "worker_id", "started_at", "trace_id", "schedule_id", "fire_at")

INSERT_COLUMNS = (
    "queue", "state", "held", "band", "run_at", "planned_at", "created_at", "handler", "owner", "max_attempts",
    "timeout", "retry", "idempotency_key", "unique_key", "concurrency_key", "concurrency_limit", "object_type",
    "object_id", "action", "trace_id", "tags", "payload", "held_for", "linked", "group_name", "schedule_id", "fire_at",
    "checkpoint",
)  # fmt: skip


_decode = json.JSONDecoder().raw_decode
DEFAULT = Retry().as_json()  # of a job that is stored without a policy of its own
# One claim shares its times, and so do the jobs of one enqueue.
instant = lru_cache(maxsize=256)(instants.instant)
_micros = lru_cache(maxsize=256)(micros)


def at(value: int | None) -> datetime | None:
    return None if value is None else instant(value)


def to_micros(value: datetime | None) -> int | None:
    return None if value is None else micros(value)


def _json(text: str | None) -> Any:
    return None if text is None else _decode(text)[0]


@lru_cache(maxsize=1024)
def _retry(text: str | None, attempts: int) -> Retry:
    return Retry.from_json(DEFAULT if text is None else json.loads(text), attempts)


@lru_cache(maxsize=1024)
def _tags(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(json.loads(text))


def job_from(row: Sequence[Any]) -> Job:
    """A row of JOB_COLUMNS as a value; by position, because this is made for every attempt."""
    return make_job(
        row[0],
        row[1],
        _json(row[2]),
        row[3],
        row[4],
        PRIORITIES[row[5]],
        instant(row[6]),
        instant(row[7]),
        instant(row[8]),
        row[9],
        row[10],
        row[11],
        _retry(row[12], row[11]),
        None if row[13] is None else timedelta(microseconds=row[13]),
        row[14],
        row[15],
        at(row[16]),
        at(row[17]),
        at(row[18]),
        row[19],
        row[20],
        row[21],
        row[22],
        _tags(row[23]),
        row[24],
        _json(row[25]),
        _json(row[26]),
        None,  # the result: only an ended job has one
        row[27],
        row[28],
        row[29],
        row[30],
        row[31],
        row[32],
        bool(row[33]),
        row[34],
        row[35],
        at(row[36]),
        at(row[37]),
    )


def finished_job_from(row: Mapping[Any, Any]) -> Job:
    """The final run row read back as the job it ended."""
    return Job(
        number=row["job_id"],
        handler=row["handler"],
        payload=_json(row["payload"]),
        state=row["state"],
        queue=row["queue"],
        priority=PRIORITIES[row["band"]],
        run_at=instant(row["run_at"]),
        planned_at=instant(row["planned_at"]),
        created_at=instant(row["created_at"]),
        owner=row["owner"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        retry=_retry(row["retry"], row["max_attempts"]),
        timeout=None if row["timeout"] is None else timedelta(microseconds=row["timeout"]),
        token=row["token"],
        worker_id=row["worker_id"],
        started_at=at(row["started_at"]),
        finished_at=at(row["finished_at"]),
        key=row["idempotency_key"],
        unique=row["unique_key"],
        concurrency_key=row["concurrency_key"],
        tags=_tags(row["tags"]),
        trace_id=row["trace_id"],
        progress=_json(row["progress"]),
        checkpoint=_json(row["checkpoint"]),
        result=_json(row["result"]),
        last_error=row["error"],
        cancel_reason=row["cancel_reason"],
        object_type=row["object_type"],
        object_id=row["object_id"],
        action=row["action"],
        group=row["group_name"],
        schedule_id=row["schedule_id"],
        fire_at=at(row["fire_at"]),
    )


COUNTED = ("failed", "timed_out", "lost")  # endings that already count themselves; a run is told from 1 on


def run_from(row: Mapping[Any, Any]) -> Run:
    return Run(
        job_number=row["job_id"],
        token=row["token"],
        outcome=row["outcome"],
        attempt=row["attempt"] + (row["outcome"] not in COUNTED),
        handler=row["handler"],
        queue=row["queue"],
        owner=row["owner"],
        worker_id=row["worker_id"],
        started_at=at(row["started_at"]),
        finished_at=at(row["finished_at"]),
        error=row["error"],
        result=_json(row["result"]),
        next_action_at=at(row["next_action_at"]),
        audit_event_id=row["audit_event_id"],
        trace_id=row["trace_id"],
        schedule_id=row["schedule_id"],
        fire_at=at(row["fire_at"]),
    )


def running_run(job: Job) -> Run:
    """The attempt under way, which exists only in the job row."""
    return Run(
        job.number, job.token, "running", job.attempt + 1, job.handler, job.queue, job.owner, job.worker_id,
        job.started_at, None, trace_id=job.trace_id, schedule_id=job.schedule_id, fire_at=job.fire_at,
    )  # fmt: skip


def chunks(new: Sequence[NewJob], most: int, most_text: int = 4_000_000) -> Iterator[Sequence[NewJob]]:
    """Cut a batch so that no statement outgrows what a database accepts in one packet."""
    start = size = 0
    for place, job in enumerate(new):
        if place > start and (place - start == most or size + len(job.payload) > most_text):
            yield new[start:place]
            start, size = place, 0
        size += len(job.payload)
    if start < len(new):
        yield new[start:]


def new_job_row(job: NewJob, now: datetime) -> tuple[Any, ...]:
    """The values of INSERT_COLUMNS."""
    return (
        job.queue, "queued", job.held, job.band, _micros(job.run_at), _micros(job.planned_at), _micros(now),
        job.handler, job.owner, job.max_attempts,
        None if job.timeout is None else job.timeout // timedelta(microseconds=1),
        job.retry, job.key, job.unique, job.concurrency_key, job.concurrency_limit, job.object_type, job.object_id,
        job.action, job.trace_id, job.tags, job.payload, job.held_for, int(job.linked), job.group, job.schedule_id,
        to_micros(job.fire_at), job.checkpoint,
    )  # fmt: skip


def ending_row(done: Settlement) -> tuple[Any, ...]:
    """What an ending adds to the run row: outcome, attempt, error, result, next action, audit link."""
    outcome = done.outcome
    return (
        outcome.ending,
        done.change.attempt,
        outcome.error if done.change.error is None else done.change.error,
        outcome.result,
        to_micros(outcome.next_action_at),
        outcome.audit_event_id,
    )


def queue_from(row: Mapping[Any, Any]) -> Queue:
    return Queue(
        name=row["name"],
        order=row["sorting"],
        max_running=row.get("max_running"),
        paused_at=at(row["paused_at"]),
        paused_by=row["paused_by"],
        pause_reason=row["pause_reason"],
    )


def node_from(row: Mapping[Any, Any]) -> Node:
    return Node(
        node_id=row["id"],
        host=row["host"],
        pid=row["pid"],
        version=row["version"],
        started_at=instant(row["started_at"]),
        seen_at=instant(row["seen_at"]),
        queues=json.loads(row["queues"]),
        state=row["state"],
    )


def node_row(node: Node) -> dict[str, Any]:
    return {
        "id": node.node_id,
        "host": node.host,
        "pid": node.pid,
        "version": node.version,
        "started_at": micros(node.started_at),
        "seen_at": micros(node.seen_at),
        "state": node.state,
        "queues": json.dumps(dict(node.queues)),
    }


def entry_row(entry: Entry) -> dict[str, Any]:
    return {
        "at": micros(entry.at),
        "actor": entry.actor,
        "verb": entry.verb,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "owner": entry.owner,
        "reason": entry.reason,
        "state_before": json.dumps(dict(entry.before), default=str),
        "state_after": json.dumps(dict(entry.after), default=str),
        "evidence": json.dumps(list(entry.evidence)),
    }


def entry_from(row: Mapping[Any, Any]) -> Entry:
    return Entry(
        at=instant(row["at"]),
        actor=row["actor"],
        verb=row["verb"],
        object_type=row["object_type"],
        object_id=row["object_id"],
        owner=row["owner"],
        reason=row["reason"],
        before=json.loads(row["state_before"]),
        after=json.loads(row["state_after"]),
        evidence=tuple(json.loads(row["evidence"])),
    )


JOB_SELECT = [jobs.c[name] for name in JOB_COLUMNS]
RUN_SELECT = list(runs.c)
