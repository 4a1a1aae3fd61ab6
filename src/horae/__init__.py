"""Horae keeps what is due: jobs, schedules and attention for Python applications and agents, on one durable store."""

from horae.app import Horae, JobHandle
from horae.core.jobs import Job, Run
from horae.core.outcomes import Cancel, Snooze
from horae.core.retry import Retry
from horae.errors import HoraeError
from horae.runtime.context import Context
from horae.stores.sqlite import prepare_sqlite
from horae.version import VERSION as __version__

__all__ = [
    "Cancel",
    "Context",
    "Horae",
    "HoraeError",
    "Job",
    "JobHandle",
    "Retry",
    "Run",
    "Snooze",
    "__version__",
    "prepare_sqlite",
]
