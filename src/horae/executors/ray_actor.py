"""A call on a Ray cluster: the body of an actor that runs one handler and keeps how it ended."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from horae.clock import SystemClock
from horae.core.jobs.lines import MOST_LINES
from horae.executors.remote_side import run_call
from horae.runtime.loop import sleep_in_thread

LOOK_EVERY = 5.0  # seconds


class CallActor:
    """Run a handler beside the questions of workers; end when none has asked for a while."""

    def __init__(self, document: str, keep: float) -> None:
        self._document = document
        self._keep = keep
        self._clock = SystemClock()
        self._asked_at = self._clock.monotonic()
        self._lines: deque[tuple[str, str]] = deque(maxlen=MOST_LINES)
        self._progress: Any = None
        self._ending: str | None = None
        self._ended = threading.Event()
        for work in (self._run, self._end_when_forgotten):
            threading.Thread(target=work, daemon=True).start()

    def _run(self) -> None:
        self._ending = run_call(self._document, self._report)
        self._ended.set()

    def _report(self, kind: str, value: Any) -> None:
        if kind == "progress":
            self._progress = value
        else:
            self._lines.append((value[0], value[1]))

    def _end_when_forgotten(self) -> None:
        while self._clock.monotonic() - self._asked_at < self._keep:
            sleep_in_thread(min(LOOK_EVERY, self._keep))
        os._exit(0)

    def look(self) -> dict[str, Any]:
        self._asked_at = self._clock.monotonic()
        state = "ended" if self._ended.is_set() else "running"
        return {"state": state, "progress": self._progress}

    def wait(self, seconds: float) -> dict[str, Any]:
        self._asked_at = self._clock.monotonic()
        self._ended.wait(seconds)
        return self.look()

    def stop(self) -> None:
        """End at once; the caller sees that the connection breaks, which it does after the last thread has ended."""
        os._exit(0)

    def collect(self) -> dict[str, Any]:
        self._asked_at = self._clock.monotonic()
        return {"ending": self._ending, "lines": list(self._lines)}
