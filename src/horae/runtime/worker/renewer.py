"""Keeping leases alive, from a thread of its own.

A handler that blocks the event loop keeps its lease, because this thread does not depend on the loop; a process
that is paused loses it, because this thread is paused with it. Only jobs held longer than a third of the lease
are renewed, all of them in one statement.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from horae.core.jobs.job import Job, Lease, renewal_pause
from horae.ports import Clock, JobSource

log = logging.getLogger("horae.worker")
OnStop = Callable[[Job, str], None]  # the job, and "lost" or "cancelled"


@dataclass(frozen=True, slots=True)
class _Held:
    """A leased job, and when (monotonic) its lease was last known to be ours."""

    job: Job
    since: float
    busy: bool = False  # the row was locked, so the lease was not extended: renew it again in the next round


class Renewer(threading.Thread):
    def __init__(self, source: JobSource, clock: Clock, lease: timedelta, on_stop: OnStop) -> None:
        super().__init__(name="horae-renew", daemon=True)
        self._source = source
        self._clock = clock
        self._lease = lease
        self._on_stop = on_stop
        self._lock = threading.Lock()
        self._held: dict[tuple[int, int], _Held] = {}
        self._ended = threading.Event()

    def hold(self, jobs: list[Job]) -> None:
        since = self._clock.monotonic()
        with self._lock:
            self._held.update({(job.number, job.token): _Held(job, since) for job in jobs})

    def drop(self, job: Job) -> None:
        with self._lock:
            self._held.pop((job.number, job.token), None)

    def run(self) -> None:
        pause = renewal_pause(self._lease).total_seconds()
        while not self._ended.wait(pause / 2):
            self.round()

    def round(self) -> None:
        """One step that cannot fail: without this thread every lease would be lost."""
        try:
            self.step()
        except Exception:
            log.exception("leases could not be renewed; trying again")

    def step(self) -> None:
        """Renew what has been held for a third of the lease; tell the worker what it has lost."""
        now = self._clock.monotonic()
        old = now - renewal_pause(self._lease).total_seconds() * 0.95
        with self._lock:
            due = {key: each.job for key, each in self._held.items() if each.busy or each.since <= old}
        if not due:
            return
        try:
            answer = self._source.renew([Lease(*key) for key in due], lease=self._lease)
        except Exception as problem:
            log.warning("%d leases could not be renewed: %r", len(due), problem)
            self.expire()
            return
        newest = dict(sorted(due))  # of two attempts at one job only the newer can still be held
        held = {key for key in due if key[0] in answer.held and key[1] == newest[key[0]]}
        answered = self._clock.monotonic()
        with self._lock:
            for key in held & set(self._held):
                busy = key[0] in answer.busy
                self._held[key] = _Held(due[key], answered if busy else now, busy)
        for key, job in due.items():
            if key not in held:
                self._lose(key)
            elif key[0] in answer.cancelled:
                self._on_stop(job, "cancelled")

    def expire(self) -> None:
        """While the store is silent we still know when our own lease has run out."""
        now = self._clock.monotonic()
        with self._lock:
            over = [key for key, each in self._held.items() if now - each.since > self._lease.total_seconds()]
        for key in over:
            self._lose(key)

    def end(self) -> None:
        """Renew nothing any more, without waiting for a renewal that is under way."""
        self._ended.set()

    def _lose(self, key: tuple[int, int]) -> None:
        with self._lock:
            lost = self._held.pop(key, None)
        if lost is not None:
            self._on_stop(lost.job, "lost")

    def stop(self, patience: float = 5.0) -> None:
        """Stop renewing; wait up to *patience* seconds for a renewal under way. Not from the event loop's thread."""
        self.end()
        if self.is_alive():
            self.join(timeout=patience)
