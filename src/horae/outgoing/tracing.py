"""What joins an outgoing call with the logs of whoever answers it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from horae.core.jobs import Job
from horae.core.traces import origin_of, trace_id_of

_ID = re.compile(r"[\x21-\x7e]{1,128}")


def trace_headers(job: Job) -> dict[str, str]:
    """``x-trace-id`` always, and ``traceparent`` where the job's trace id is one by W3C Trace Context."""
    told = {"x-trace-id": trace_id(job)}
    parent = origin_of(job.trace_id)
    if parent is not None:
        told["traceparent"] = str(replace(parent, span_id=span_id(job)))
    return told


def trace_id(job: Job) -> str:
    """The job's own; the run's id where the job brought none that a header can carry."""
    told = trace_id_of(job.trace_id)
    return told if told and _ID.fullmatch(told) else job.run_id


def span_id(job: Job) -> str:
    """Stands for this attempt, and differs for the next one; never the one id that is not valid."""
    return hashlib.sha256(job.run_id.encode()).hexdigest()[:16].replace("0" * 16, "1" * 16)
