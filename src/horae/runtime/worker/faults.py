"""Planted faults for tests of crashes: off unless ``HORAE_FAULT`` is set.

``HORAE_FAULT=settle.before:kill:3`` kills the process, as ``kill -9`` would, the third time it is about to settle.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from horae.errors import ConfigurationError

POINTS = ("claim.after", "run.before", "settle.before", "settle.after")
ACTIONS = ("kill", "stop")


class Faults:
    """Counts how often each point is passed and strikes at the chosen one."""

    def __init__(self, text: str = "") -> None:
        self._passed: Counter[str] = Counter()
        self._point = ""
        if not text:
            return
        point, _, rest = text.partition(":")
        action, _, count = rest.partition(":")
        count = count or "1"
        if point not in POINTS or action not in ACTIONS or not count.isdecimal():
            raise ConfigurationError("fault_unreadable", text=text, points=list(POINTS), actions=list(ACTIONS))
        self._point, self._action, self._count = point, action, int(count)

    def at(self, point: str) -> None:
        if point != self._point:
            return
        self._passed[point] += 1
        if self._passed[point] == self._count:
            os.kill(os.getpid(), signal.SIGKILL if self._action == "kill" else signal.SIGSTOP)
