"""The value of a lock that an attempt at a job holds: random bits, and which attempt it is.

The random part proves whose lock it is; the rest tells others whether its holder can still be at work.
"""

from __future__ import annotations

import base64
import re

from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job
from horae.core.time.instants import micros

LOCK = "lock"  # what a job that was put back because of its lock waits for
_VALUE = re.compile(r"[\w-]{22}\.([0-9a-f]+)\.([0-9a-f]+)\.([0-9a-f]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LockHolder:
    """One attempt at a job.

    The job is named by its number and its creation time: several stores may share one Redis, and each of them
    counts its jobs from 1.
    """

    number: int
    created_at: int  # microseconds
    token: int

    @classmethod
    def of(cls, job: Job) -> LockHolder:
        return cls(job.number, micros(job.created_at), job.token)

    @classmethod
    def read(cls, value: str) -> LockHolder | None:
        """Return the attempt that a lock's value names, or None for a lock that no attempt took."""
        found = _VALUE.fullmatch(value)
        return None if found is None else cls(*(int(part, 16) for part in found.groups()))

    def value(self, random: str) -> str:
        """Return the value of a lock of this attempt; *random* is 32 fresh hexadecimal characters.

        It has at most 64 characters, which is what a lock's row has room for.
        """
        bits = base64.urlsafe_b64encode(bytes.fromhex(random)).decode().rstrip("=")
        return f"{bits}.{self.number:x}.{self.created_at:x}.{self.token:x}"

    def follows(self, other: LockHolder) -> bool:
        """Return whether *other* is an earlier attempt at the same job."""
        same_job = (self.number, self.created_at) == (other.number, other.created_at)
        return same_job and other.token < self.token

    @property
    def run_id(self) -> str:
        return f"{job_id(self.number)}.{self.token}"
