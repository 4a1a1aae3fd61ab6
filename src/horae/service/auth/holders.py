"""Who pulled which job, as far as this process knows: for an ending that shows no token.

Only in memory: after a restart, or behind another process of the service, nobody is known, and the job's own history
must do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from fastapi import Request

from horae.core.access.callers import Caller
from horae.core.jobs.job import Job

MOST = 100_000  # whoever pulled longest ago is forgotten first


class Holders:
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
        """Whether this caller pulled the job as it is held now."""
        return self._callers.get((job.number, job.token)) == caller.identity


def holders_of(request: Request) -> Holders:
    found: Holders = request.app.state.holders
    return found
