"""Values as the JSON that ``--json`` prints. Fields may be added; none changes its meaning or goes away before 2.0."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.core.instants import iso

if TYPE_CHECKING:
    from horae.actions.queues import QueueView
    from horae.core.running_limits import RunningLimit
    from horae.ports import Queue


def moment(value: datetime | None) -> str | None:
    return None if value is None else iso(value)


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
