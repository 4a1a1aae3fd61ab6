"""What joins an outgoing call with the logs of whoever answers it."""

from __future__ import annotations

import hashlib
import re

from horae.core.jobs import Job

_ID = re.compile(r"[\x21-\x7e]{1,128}")
_W3C = re.compile(r"(?!0{32})[0-9a-f]{32}")


def trace_headers(job: Job) -> dict[str, str]:
    """``x-trace-id`` always, and ``traceparent`` where the job's trace id is one by W3C Trace Context."""
    told = {"x-trace-id": trace_id(job)}
    if job.trace_id and _W3C.fullmatch(job.trace_id):
        told["traceparent"] = f"00-{job.trace_id}-{span_id(job)}-01"
    return told


def trace_id(job: Job) -> str:
    """The job's own; the run's id where the job brought none that a header can carry."""
    return job.trace_id if job.trace_id and _ID.fullmatch(job.trace_id) else job.run_id


def span_id(job: Job) -> str:
    """Stands for this attempt, and differs for the next one; never the one id that is not valid."""
    return hashlib.sha256(job.run_id.encode()).hexdigest()[:16].replace("0" * 16, "1" * 16)
