"""Extend locks while their jobs run, from a thread of its own.

A lock is extended after a third of its lifetime, so that a run may outlast the lifetime while a process that hangs
loses its lock. A run whose lock is lost is asked to stop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from horae.core.dataclass import dataclass
from horae.core.jobs.job import renewal_pause
from horae.ports.locks import Lock
from horae.ports.world import Clock

log = logging.getLogger("horae.locks")
AGAIN = 1.0  # seconds until a failed extension is tried again, or sooner where the lock is short


@dataclass(slots=True)
class _Held:
    lock: Lock
    ttl: timedelta
    lost: Callable[[], None]
    until: float  # monotonic time when the lock ends unless it is extended
    due: float
    is_failing: bool = False  # the lock manager did not answer when it was last asked


class LockKeeper:
    """Extend the locks of one process. The thread starts with the first lock and sleeps until one is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[str, str], _Held] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._ended = False

    def hold(self, lock: Lock, ttl: timedelta, lost: Callable[[], None], *, since: float | None = None) -> None:
        """Keep extending an acquired lock; *lost* is called from the keeper's thread if the lock is lost.

        *since* is when the lock was requested: its lifetime cannot have begun earlier.
        """
        asked = self._clock.monotonic() if since is None else since
        pause = renewal_pause(ttl).total_seconds()
        with self._changed:
            self._held[lock.key, lock.token] = _Held(lock, ttl, lost, asked + ttl.total_seconds(), asked + pause)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="horae-locks", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, lock: Lock) -> bool:
        """Stop extending the lock; return False if it was lost before."""
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
        """Extend the locks that are due; return the seconds until the next one is, or None when none is held."""
        now = self._clock.monotonic()
        with self._changed:
            due = [held for held in self._held.values() if held.due <= now]
        answers = True
        for held in due:
            answers = self._extend(held, answers)
        now = self._clock.monotonic()
        with self._changed:
            return min((max(0.0, held.due - now) for held in self._held.values()), default=None)

    def _extend(self, held: _Held, answers: bool) -> bool:
        """Extend one lock; return False when the lock manager does not answer.

        With *answers* false the manager is not called: each call may take seconds, during which a lock that has
        expired would still count as held.
        """
        asked = self._clock.monotonic()
        pause = renewal_pause(held.ttl).total_seconds()
        ours, surely_over = False, held.is_failing and asked >= held.until
        if answers and not surely_over:
            try:
                ours = held.lock.extend(held.ttl) or (asked < held.until and self._restore(held))
            except Exception as problem:
                answers = False
                if not held.is_failing:
                    log.warning("lock %s could not be extended; trying again: %s", held.lock.key, problem)
        held.is_failing = not answers
        now = self._clock.monotonic()
        if ours:
            held.until, held.due = asked + held.ttl.total_seconds(), asked + pause
        elif not answers and now < held.until:
            held.due = min(now + min(AGAIN, pause), held.until)
        elif self.drop(held.lock):
            log.error("lock %s was lost while its job was running; another process may run it now", held.lock.key)
            held.lost()
        return answers

    def _restore(self, held: _Held) -> bool:
        """Acquire a lock again that its manager forgot too early, as a restarted Redis without persistence does."""
        restore: Callable[[timedelta], bool] | None = getattr(held.lock, "restore", None)
        if restore is None or not self._is_held(held.lock) or not restore(held.ttl):
            return False
        if not self._is_held(held.lock):  # its run ended and released it meanwhile
            held.lock.release()
        return True

    def _is_held(self, lock: Lock) -> bool:
        with self._changed:
            return (lock.key, lock.token) in self._held
