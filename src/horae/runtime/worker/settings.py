"""Settings of a worker."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta

from horae.actions.retention import Retention
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SLOTS
from horae.core.jobs.machinery import queue_name
from horae.ports.locks import Limiter
from horae.ports.workers import Node
from horae.runtime.chores.janitor import Chore
from horae.runtime.chores.keeper import MakeBeside


@dataclass(frozen=True)
class WorkerSettings:
    """Queues, limits and switches of one worker."""

    queues: Mapping[str, int] = field(default_factory=lambda: {"default": SLOTS})
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=30)
    cancel_grace: timedelta = timedelta(seconds=6)  # for cancelled attempts to end, before they are released
    look_every: timedelta = timedelta(seconds=60)
    batch: int = 500  # most jobs of one queue in one claim
    version: str = ""
    release: str | None = None  # of the application; shown with its workers and error groups
    fault: str = ""
    retention: Retention | None = None  # None: that of the application
    rates: Mapping[str, Limiter] = field(default_factory=dict)  # how often jobs of a queue may start
    chores: tuple[Chore, ...] = ()
    beside: tuple[MakeBeside, ...] = ()  # loops that go on beside the chores
    fires: bool = True  # whether it turns due schedules into jobs
    cleans: bool = True  # whether it takes turns at chores, the deletion of what is old among them

    def __post_init__(self) -> None:
        for queue in self.queues:
            queue_name(queue)

    def node(self, node_id: str, started_at: datetime, now: datetime, state: str) -> Node:
        """Return the worker as listed among the nodes."""
        host, queues = socket.gethostname(), dict(self.queues)
        return Node(node_id, host, os.getpid(), self.version, started_at, now, queues, state, self.release)
