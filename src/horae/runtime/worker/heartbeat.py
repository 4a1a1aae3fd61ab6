"""When a worker reports to the list of nodes, and what it says of itself.

The report travels with a look at the store, so that it costs nothing while nothing happens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from horae.ports.workers import Node
from horae.runtime.worker.settings import WorkerSettings

SHORTEST = timedelta(seconds=4)  # between two reports without news, however often the worker looks
NEWS = timedelta(seconds=5)  # a changed number of busy slots waits this long since the last report, so that they add up


class Heartbeat:
    """The reports of one worker."""

    def __init__(self, settings: WorkerSettings, node_id: str, started_at: datetime) -> None:
        self._settings, self._node_id, self._started_at = settings, node_id, started_at
        self._sent: Node | None = None

    def node(self, now: datetime, state: str, busy: Mapping[str, int]) -> Node:
        """Return the worker as it is now."""
        node = self._settings.node(self._node_id, self._started_at, now, state)
        return replace(node, busy={queue: count for queue, count in busy.items() if count}, memory=resident_bytes())

    def is_due(self, now: datetime, state: str, busy: Mapping[str, int]) -> bool:
        """Return whether to report with the next look."""
        sent = self._sent
        if sent is None or sent.state != state:
            return True
        age = now - sent.seen_at
        return age >= max(self._settings.look_every * 0.9, SHORTEST) or (age >= NEWS and self._is_news(busy))

    def sent(self, node: Node) -> None:
        """Keep what was reported."""
        self._sent = node

    def longest_pause(self, busy: Mapping[str, int]) -> timedelta:
        """Return how long the worker may sleep: while slots are busy or have just been freed not for long."""
        return NEWS if any(busy.values()) or self._is_news(busy) else self._settings.look_every

    def _is_news(self, busy: Mapping[str, int]) -> bool:
        return self._sent is not None and dict(self._sent.busy or {}) != {each: n for each, n in busy.items() if n}


def resident_bytes() -> int | None:
    """Return how much of this process is in memory; None where the system has no /proc."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
