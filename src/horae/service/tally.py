"""What a service counts about itself while it runs, for its metrics."""

from __future__ import annotations

import threading
from collections import Counter


class Tally:
    """Counters that any thread may raise; none is ever lowered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, by: int = 1) -> None:
        with self._lock:
            self._counts[name] += by

    def read(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)
