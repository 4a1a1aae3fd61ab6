"""Log which code blocks the event loop.

An async handler that computes or makes a blocking call stops everything else on its loop. Leases survive that, because
another thread renews them; other jobs wait. This thread pings the loop and, if no answer comes, logs once which line
is being executed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from horae.core.jobs.job import renewal_pause
from horae.ports.world import Clock

log = logging.getLogger("horae.worker")
LONGEST = timedelta(seconds=1)


class Watchdog(threading.Thread):
    """Watch the loop on which it is made and started; *is_busy* returns whether there are jobs to watch for.

    *also* is called in the same interval, for checks that must depend neither on the loop nor on the store.
    """

    def __init__(
        self, clock: Clock, lease: timedelta, is_busy: Callable[[], bool], also: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(name="horae-watchdog", daemon=True)
        self._clock = clock
        self._is_busy = is_busy
        self._also = also
        self._limit = min(LONGEST, renewal_pause(lease)).total_seconds()
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._asked_at: float | None = None
        self._barked = False
        self._stepped_at = clock.monotonic()
        self._lag = 0.0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(self._limit / 2):
            self.step()
            self._also()

    def step(self) -> None:
        """Ping the loop, or, if the last answer is overdue, log which code blocks it."""
        now = self._clock.monotonic()
        paused, self._stepped_at = now - self._stepped_at > self._limit * 2, now
        asked_at = self._asked_at
        if asked_at is None:
            if self._is_busy():
                self._ask(now)
        elif paused:  # the whole process was suspended: the loop is not blocked
            self._asked_at = now
        elif now - asked_at > self._limit and not self._barked:
            self._barked = True
            self._bark(now - asked_at)

    def _ask(self, now: float) -> None:
        self._asked_at, self._barked = now, False
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._answered)

    def _answered(self) -> None:
        if self._asked_at is not None:
            self._lag = max(self._lag, self._clock.monotonic() - self._asked_at)
        self._asked_at = None

    def take_lag(self) -> timedelta:
        """Return how long the loop kept a ping waiting at most since this was called last; from its own thread."""
        lag, self._lag = self._lag, 0.0
        return timedelta(seconds=lag)

    def _bark(self, silent: float) -> None:
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return
        stack = traceback.extract_stack(frame)
        task = asyncio.current_task(self._loop)
        log.warning(
            "the event loop has been blocked for %.1f s by %s, line %s, in %s (%s). Leases are kept, but other jobs "
            "wait: make the handler a plain function, which runs in a thread, or declare executor='process'.\n%s",
            silent,
            stack[-1].filename,
            stack[-1].lineno,
            stack[-1].name,
            "no task" if task is None else task.get_name(),
            "".join(stack.format()),
        )

    def stop(self) -> None:
        self._ended.set()
