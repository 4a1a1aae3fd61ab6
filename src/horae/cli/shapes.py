"""Values as the JSON that ``--json`` prints. Fields may be added; none changes its meaning or goes away before 2.0."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.core.instants import iso
from horae.core.traces import trace_id_of

if TYPE_CHECKING:
    from horae.actions.queues import QueueView
    from horae.core.jobs import Job, Run
    from horae.core.reasons import Reason
    from horae.core.running_limits import RunningLimit
    from horae.ports import Queue


def moment(value: datetime | None) -> str | None:
    return None if value is None else iso(value)


def job(value: Job) -> dict[str, Any]:
    return {
        "id": value.id,
        "handler": value.handler,
        "state": value.state,
        "queue": value.queue,
        "priority": value.priority,
        "owner": value.owner,
        "arguments": value.payload,
        "run_at": moment(value.run_at),
        "planned_at": moment(value.planned_at),
        "created_at": moment(value.created_at),
        "started_at": moment(value.started_at),
        "finished_at": moment(value.finished_at),
        "attempt": value.attempt,
        "max_attempts": value.max_attempts,
        "retry": value.retry.as_json(),
        "timeout": None if value.timeout is None else value.timeout.total_seconds(),
        "token": value.token,
        "worker_id": value.worker_id,
        "leased_until": moment(value.leased_until),
        "key": value.key,
        "unique": value.unique,
        "concurrency_key": value.concurrency_key,
        "held": bool(value.held),
        "tags": list(value.tags),
        "trace_id": trace_id_of(value.trace_id),
        "progress": value.progress,
        "checkpoint": value.checkpoint,
        "result": value.result,
        "error": value.last_error,
        "cancel_reason": value.cancel_reason,
    }


def run(value: Run) -> dict[str, Any]:
    return {
        "id": value.id,
        "outcome": value.outcome,
        "attempt": value.attempt,
        "worker_id": value.worker_id,
        "started_at": moment(value.started_at),
        "finished_at": moment(value.finished_at),
        "error": value.error,
        "result": value.result,
    }


def reasons(values: Sequence[Reason]) -> list[dict[str, str]]:
    return [{"code": each.code, "text": each.text} for each in values]


def queue(value: Queue) -> dict[str, Any]:
    return {
        "name": value.name,
        "order": value.order,
        "max_running": value.max_running,
        "paused_at": moment(value.paused_at),
        "paused_by": value.paused_by,
        "pause_reason": value.pause_reason,
    }


def limit(value: RunningLimit) -> dict[str, Any]:
    return {
        "name": value.name,
        "max_running": value.max_running,
        "source": value.source,
        "running": value.running,
        "sources": [
            {"app": each.app or None, "source": each.source, "max_running": each.max_running} for each in value.sources
        ],
    }


def queue_view(value: QueueView) -> dict[str, Any]:
    return queue(value.queue) | {"jobs": value.counts, "workers": list(value.workers)}
