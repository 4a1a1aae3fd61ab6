"""Renew leases from a thread of its own.

A handler that blocks the event loop keeps its lease, because this thread does not depend on the loop; a process
that is paused loses it, because this thread is paused with it. Only jobs held longer than a third of the lease
are renewed, all of them in one statement.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from horae.core.jobs.job import Job, Lease, renewal_pause
from horae.ports.workers import JobSource
from horae.ports.world import Clock

log = logging.getLogger("horae.worker")
Key = tuple[int, int]  # number and token of a job: one attempt at it
OnStop = Callable[[Job, str], None]  # the job, and "lost" or "cancelled"


class Renewer(threading.Thread):
    """Renew the leases of one worker; call *on_stop* for jobs that are lost or cancelled."""

    def __init__(self, source: JobSource, clock: Clock, lease: timedelta, on_stop: OnStop) -> None:
        super().__init__(name="horae-renew", daemon=True)
        self._source = source
        self._clock = clock
        self._lease = lease
        self._on_stop = on_stop
        self._lock = threading.Lock()
        # Plain mappings and no value for each job: most are held for milliseconds and never renewed.
        self._held: dict[Key, Job] = {}
        self._since: dict[Key, float] = {}  # when (monotonic) each lease was last confirmed
        self._busy: set[Key] = set()  # rows that were locked: not extended, to be renewed in the next round
        self._ended = threading.Event()

    def hold(self, jobs: Sequence[Job]) -> None:
        since = self._clock.monotonic()
        held = {(job.number, job.token): job for job in jobs}
        with self._lock:
            self._held.update(held)
            self._since.update(dict.fromkeys(held, since))

    def drop(self, *jobs: Job) -> None:
        self.forget([(job.number, job.token) for job in jobs])

    def forget(self, keys: Collection[Key]) -> None:
        """Stop renewing; in one go for a whole batch that has ended."""
        forget_time, forget_job = self._since.pop, self._held.pop
        with self._lock:
            for key in keys:
                forget_time(key, None)
                forget_job(key, None)
            if self._busy:
                self._busy.difference_update(keys)

    def _forget(self, key: Key) -> Job | None:
        self._since.pop(key, None)
        self._busy.discard(key)
        return self._held.pop(key, None)

    def run(self) -> None:
        pause = renewal_pause(self._lease).total_seconds()
        while not self._ended.wait(pause / 2):
            self.round()

    def round(self) -> None:
        """Run one step and catch every error: without this thread every lease would be lost."""
        try:
            self.step()
        except Exception:
            log.exception("leases could not be renewed; trying again")

    def step(self) -> None:
        """Renew the jobs held for a third of the lease; report lost and cancelled ones to the worker."""
        now = self._clock.monotonic()
        old = now - renewal_pause(self._lease).total_seconds() * 0.95
        with self._lock:
            due = {key: self._held[key] for key, since in self._since.items() if since <= old or key in self._busy}
        if not due:
            return
        try:
            answer = self._source.renew([Lease(*key) for key in due], lease=self._lease)
        except Exception as problem:
            log.warning("%d leases could not be renewed; trying again: %r", len(due), problem)
            self.expire()
            return
        newest = dict(sorted(due))  # of two attempts at one job only the newer can still be held
        held = {key for key in due if key[0] in answer.held and key[1] == newest[key[0]]}
        answered = self._clock.monotonic()
        with self._lock:
            for key in held & set(self._held):
                busy = key[0] in answer.busy
                self._since[key] = answered if busy else now
                (self._busy.add if busy else self._busy.discard)(key)
        for key, job in due.items():
            if key not in held:
                self._lose(key)
            elif key[0] in answer.cancelled:
                self._on_stop(job, "cancelled")

    def expire(self) -> None:
        """Report the leases as lost that have run out by the local clock, while the store does not answer."""
        now = self._clock.monotonic()
        with self._lock:
            over = [key for key, since in self._since.items() if now - since > self._lease.total_seconds()]
        for key in over:
            self._lose(key)

    def end(self) -> None:
        """Stop renewing, without waiting for a renewal under way."""
        self._ended.set()

    def _lose(self, key: Key) -> None:
        with self._lock:
            lost = self._forget(key)
        if lost is not None:
            self._on_stop(lost, "lost")

    def stop(self, patience: float = 5.0) -> None:
        """Stop renewing; wait up to *patience* seconds for a renewal under way. Not from the event loop's thread."""
        self.end()
        if self.is_alive():
            self.join(timeout=patience)
