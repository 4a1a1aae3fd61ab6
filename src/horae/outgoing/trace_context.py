"""What joins an outgoing call with the logs of whoever answers it."""

from __future__ import annotations

import hashlib
import re

from horae.core.jobs.job import Job
from horae.core.traces import Parent, origin_of, trace_id_of

_SENDABLE = re.compile(r"[\x21-\x7e]{1,128}")


def trace_headers(job: Job) -> dict[str, str]:
    """``x-trace-id`` always, and ``traceparent`` where the job belongs to a trace by W3C Trace Context."""
    headers = {"x-trace-id": trace_id(job)}
    origin = origin_of(job.trace_id)
    if origin is not None:
        headers["traceparent"] = str(Parent(origin.trace_id, _span_id(job), origin.flags))
    return headers


def trace_id(job: Job) -> str:
    """Return the job's trace id; the run's id where the job has none that a header can carry."""
    own = trace_id_of(job.trace_id)
    return own if own and _SENDABLE.fullmatch(own) else job.run_id


def _span_id(job: Job) -> str:
    """Stands for this attempt; the next one has another."""
    return hashlib.sha256(job.run_id.encode()).hexdigest()[:16]
