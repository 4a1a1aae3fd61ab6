"""Add the running job to every log record, including records of libraries.

A context variable holds the job; it follows a handler through its tasks and into the threads that the worker starts for
it. A filter on the log handlers adds the job's fields to each record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from horae.core.jobs.job import Job

running_job: ContextVar[Job | None] = ContextVar("horae_running_job", default=None)


def logger_name(handler: str) -> str:
    """Return the name of the logger for the runs of a handler."""
    return f"horae.jobs.{handler}"


def job_fields(job: Job, **more: Any) -> dict[str, Any]:
    """Return the fields of a log record about a job."""
    return {
        "job_id": job.id, "run_id": job.run_id, "handler": job.handler, "queue": job.queue, "owner": job.owner, **more
    }  # fmt: skip


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines carry the job, beside whatever ``extra`` the caller gives."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class JobLogFilter(logging.Filter):
    """Add ``job_id``, ``run_id``, ``handler``, ``queue`` and ``owner`` to every record written while a job runs.

    A worker puts one on the handlers of the root logger. Put one on your own handlers elsewhere:
    ``handler.addFilter(JobLogFilter())``. It lets every record through, and changes no field that is there already.
    """

    def __init__(self, current: Callable[[], Job | None] | None = None) -> None:
        super().__init__()
        self._current = current or running_job.get

    def filter(self, record: logging.LogRecord) -> bool:
        job = self._current()
        if job is not None:
            for name, value in job_fields(job).items():
                vars(record).setdefault(name, value)
        return True


@contextmanager
def marking_logs() -> Iterator[None]:
    """Put the filter on the handlers of the root logger while the block runs."""
    marked = [handler for handler in logging.getLogger().handlers if not _is_marked(handler)]
    added = JobLogFilter()
    for handler in marked:
        handler.addFilter(added)
    try:
        yield
    finally:
        for handler in marked:
            handler.removeFilter(added)


def _is_marked(handler: logging.Handler) -> bool:
    return any(isinstance(each, JobLogFilter) for each in handler.filters)
