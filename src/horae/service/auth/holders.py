"""The callers that pulled jobs from this process, for endings without a token.

Kept in memory only: after a restart, or behind another process of the service, none is known, and the history of the
job decides.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from fastapi import Request

from horae.core.access.callers import Caller
from horae.core.jobs.job import Job

MOST = 100_000  # the oldest pull is forgotten first


class Holders:
    """Callers by the job and token that they pulled."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._callers: OrderedDict[tuple[int, int], str] = OrderedDict()  # by job and token

    def note(self, jobs: Iterable[Job], caller: Caller) -> None:
        with self._lock:
            for job in jobs:
                self._callers[job.number, job.token] = caller.identity
            while len(self._callers) > self._most:
                self._callers.popitem(last=False)

    def are_known(self, job: Job) -> bool:
        return (job.number, job.token) in self._callers

    def have(self, job: Job, caller: Caller) -> bool:
        """Return whether this caller pulled the job as it is held now."""
        return self._callers.get((job.number, job.token)) == caller.identity


def holders_of(request: Request) -> Holders:
    found: Holders = request.app.state.holders
    return found
