"""What is kept of a job whose handler runs elsewhere: the name of the call, how to find it again, how it ended.

It is the checkpoint of the job. The name is stored before the call is submitted, so that a worker that dies in between
leaves a name behind under which the next attempt finds what was started, or starts it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job
from horae.core.time.instants import instant, micros

KEY = "remote"  # in the checkpoint
RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A call that was, or is about to be, submitted for a job."""

    executor: str
    name: str
    job_id: str
    submitted_at: datetime  # its time limit counts from here, over all attempts that follow it
    handle: Mapping[str, Any] | None = None  # None until the executor has answered
    ended: Mapping[str, Any] | None = None  # its ending, once a worker has collected it

    @property
    def is_open(self) -> bool:
        """Whether the next attempt has to follow this call instead of starting another."""
        return self.ended is None

    def as_checkpoint(self) -> dict[str, Any]:
        return {
            KEY: {
                "executor": self.executor,
                "name": self.name,
                "job_id": self.job_id,
                "submitted_at": micros(self.submitted_at),
                "handle": None if self.handle is None else dict(self.handle),
                "ended": None if self.ended is None else dict(self.ended),
            }
        }


def read_run(checkpoint: Any, job: Job, executor: str) -> RemoteRun | None:
    """Return the call that an earlier attempt at this job has left; None if there is none for this executor."""
    match checkpoint:
        case {
            "remote": {
                "executor": str(used),
                "name": str(name),
                "job_id": str(job_id),
                "submitted_at": int(at),
                "handle": (None | dict()) as handle,
                "ended": (None | dict()) as ended,
            }
        } if (used, job_id) == (executor, job.id):
            return RemoteRun(used, name, job_id, instant(at), handle, ended)
    return None


def remote_name(job: Job) -> str:
    """Return the name of the call of a claimed job: it tells job, attempt and claim.

    The token makes it unique within a store, so that a job that is retried never meets an old call. The digest tells
    stores apart that use the same cluster.
    """
    seed = f"{job.id}/{job.handler}/{micros(job.created_at)}"
    digest = hashlib.sha256(seed.encode()).hexdigest()[:8]
    return f"horae-{job.number}-{job.attempt + 1}-{job.token}-{digest}"
