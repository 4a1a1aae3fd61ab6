"""Horae keeps what is due: jobs, schedules and attention for Python applications and agents, on one durable store.

The public names are imported on first use, so that a command that needs none of them starts at once.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from horae.version import VERSION as __version__

if TYPE_CHECKING:
    from horae.api.jobs import Job, Run
    from horae.app import Horae
    from horae.client.client import AsyncClient, Client
    from horae.core.cron import Cron
    from horae.core.outcomes import Cancel, Snooze
    from horae.core.retry import Retry
    from horae.core.schedules import Every, Once
    from horae.core.status import JobStatus
    from horae.core.timeouts import Timeouts
    from horae.errors import HoraeError
    from horae.handles import Blueprint, JobHandle
    from horae.limits import RateLimiter
    from horae.runtime.context import Context
    from horae.runtime.listeners import JobExecutionListener
    from horae.runtime.logs import JobLogFilter
    from horae.stores.sqlite import prepare_sqlite
    from horae.tracker import ExecutionTracker

__all__ = [
    "AsyncClient",
    "Blueprint",
    "Cancel",
    "Client",
    "Context",
    "Cron",
    "Every",
    "ExecutionTracker",
    "Horae",
    "HoraeError",
    "Job",
    "JobExecutionListener",
    "JobHandle",
    "JobLogFilter",
    "JobStatus",
    "Once",
    "RateLimiter",
    "Retry",
    "Run",
    "Snooze",
    "Timeouts",
    "__version__",
    "prepare_sqlite",
]

_PLACES = {
    "AsyncClient": "horae.client.client",
    "Cancel": "horae.core.outcomes",
    "Client": "horae.client.client",
    "Context": "horae.runtime.context",
    "Cron": "horae.core.cron",
    "Every": "horae.core.schedules",
    "ExecutionTracker": "horae.tracker",
    "Horae": "horae.app",
    "HoraeError": "horae.errors",
    "Job": "horae.api.jobs",
    "JobExecutionListener": "horae.runtime.listeners",
    "JobHandle": "horae.handles",
    "JobLogFilter": "horae.runtime.logs",
    "JobStatus": "horae.core.status",
    "Blueprint": "horae.handles",
    "Once": "horae.core.schedules",
    "RateLimiter": "horae.limits.limiter",
    "Retry": "horae.core.retry",
    "Run": "horae.api.jobs",
    "Snooze": "horae.core.outcomes",
    "Timeouts": "horae.core.timeouts",
    "prepare_sqlite": "horae.stores.sqlite",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'horae' has no attribute {name!r}")
    return getattr(_import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
