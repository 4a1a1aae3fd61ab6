"""Horae keeps what is due: jobs, schedules and attention for Python applications and agents, on one durable store.

The public names are imported on first use, so that a command that needs none of them starts at once.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from horae.version import VERSION as __version__

if TYPE_CHECKING:
    from horae.api.governance.object_values import ObjectToVerify
    from horae.api.jobs.room import Job, Run
    from horae.app import Horae
    from horae.client.client import AsyncClient, Client
    from horae.core.governance.answers import Attend, Verdict
    from horae.core.jobs.gathered_jobs import Collect, Debounce
    from horae.core.jobs.outcomes import BudgetEmpty, Cancel, Snooze
    from horae.core.jobs.retry import Retry
    from horae.core.schedules.job_status import JobStatus
    from horae.core.schedules.rules import Every, Once
    from horae.core.time.cron import Cron
    from horae.core.timeouts import Timeouts
    from horae.declare.handles import Blueprint, JobHandle
    from horae.declare.tracker import ExecutionTracker
    from horae.errors import HoraeError
    from horae.limits import RateLimiter
    from horae.runtime.logs import JobLogFilter
    from horae.runtime.worker.context import Context
    from horae.runtime.worker.listeners import JobExecutionListener
    from horae.stores.databases.sqlite import prepare_sqlite

__all__ = [
    "AsyncClient",
    "Attend",
    "Blueprint",
    "BudgetEmpty",
    "Cancel",
    "Client",
    "Collect",
    "Context",
    "Cron",
    "Debounce",
    "Every",
    "ExecutionTracker",
    "Horae",
    "HoraeError",
    "Job",
    "JobExecutionListener",
    "JobHandle",
    "JobLogFilter",
    "JobStatus",
    "ObjectToVerify",
    "Once",
    "RateLimiter",
    "Retry",
    "Run",
    "Snooze",
    "Timeouts",
    "Verdict",
    "__version__",
    "prepare_sqlite",
]

_PLACES = {
    "AsyncClient": "horae.client.client",
    "Attend": "horae.core.governance.answers",
    "BudgetEmpty": "horae.core.jobs.outcomes",
    "Cancel": "horae.core.jobs.outcomes",
    "Client": "horae.client.client",
    "Collect": "horae.core.jobs.gathered_jobs",
    "Context": "horae.runtime.worker.context",
    "Cron": "horae.core.time.cron",
    "Debounce": "horae.core.jobs.gathered_jobs",
    "Every": "horae.core.schedules.rules",
    "ExecutionTracker": "horae.declare.tracker",
    "Horae": "horae.app",
    "HoraeError": "horae.errors",
    "Job": "horae.api.jobs.room",
    "JobExecutionListener": "horae.runtime.worker.listeners",
    "JobHandle": "horae.declare.handles",
    "JobLogFilter": "horae.runtime.logs",
    "JobStatus": "horae.core.schedules.job_status",
    "Blueprint": "horae.declare.handles",
    "ObjectToVerify": "horae.api.governance.object_values",
    "Once": "horae.core.schedules.rules",
    "RateLimiter": "horae.limits.limiter",
    "Retry": "horae.core.jobs.retry",
    "Run": "horae.api.jobs.room",
    "Snooze": "horae.core.jobs.outcomes",
    "Timeouts": "horae.core.timeouts",
    "Verdict": "horae.core.governance.answers",
    "prepare_sqlite": "horae.stores.databases.sqlite",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'horae' has no attribute {name!r}")
    return getattr(_import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
