"""Keeping locks while their holders work, from a thread of its own.

A lock is extended at a third of its time, so that a run may take longer than the lock was set for, and a process
that hangs loses it. Losing one is told to whoever holds it, never hidden.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from horae.core.jobs import renewal_pause
from horae.errors import HoraeError
from horae.ports import Clock, Lock

log = logging.getLogger("horae.locks")
AGAIN = 1.0  # seconds until a failed extension is tried again, or sooner where the lock is short


@dataclass(slots=True)
class _Held:
    lock: Lock
    ttl: timedelta
    lost: Callable[[], None]
    until: float  # by the monotonic clock
    due: float


class LockKeeper:
    """Extends the locks of one process. The thread starts with the first lock and sleeps until one is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[str, str], _Held] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    def hold(self, lock: Lock, ttl: timedelta, lost: Callable[[], None]) -> None:
        """Keep extending a lock just acquired; *lost* is called, from another thread, if that fails for good."""
        now = self._clock.monotonic()
        pause = renewal_pause(ttl).total_seconds()
        with self._changed:
            self._held[lock.key, lock.token] = _Held(lock, ttl, lost, now + ttl.total_seconds(), now + pause)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="horae-locks", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, lock: Lock) -> bool:
        """Stop extending it; false when it has been lost."""
        with self._changed:
            return self._held.pop((lock.key, lock.token), None) is not None

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _serve(self) -> None:
        while not self._ended:
            try:
                wait = self.step()
            except Exception:  # without this thread every lock would be lost
                log.exception("locks could not be extended; trying again")
                wait = AGAIN
            with self._changed:
                if not self._ended:
                    self._changed.wait(wait)

    def step(self) -> float | None:
        """Extend what is due; answers with the seconds until the next is, or None when nothing is held."""
        now = self._clock.monotonic()
        with self._changed:
            due = [held for held in self._held.values() if held.due <= now]
        for held in due:
            self._extend(held)
        now = self._clock.monotonic()
        with self._changed:
            return min((max(0.0, held.due - now) for held in self._held.values()), default=None)

    def _extend(self, held: _Held) -> None:
        asked = self._clock.monotonic()
        pause = renewal_pause(held.ttl).total_seconds()
        try:
            ours = held.lock.extend(held.ttl)
        except HoraeError as problem:
            if asked < held.until:
                log.warning("lock %s could not be extended: %s", held.lock.key, problem)
                held.due = asked + min(AGAIN, pause)
                return
            ours = False  # nobody answers, and our own time has run out
        if ours:
            held.until, held.due = asked + held.ttl.total_seconds(), asked + pause
        elif self.drop(held.lock):
            log.error("lock %s was lost while its job was running; somebody else may run it now", held.lock.key)
            held.lost()
