"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 60.0  # seconds; only what never happens takes so long


def wait_until(holds: Callable[[], object]) -> None:
    """Poll until a condition holds; fail the test when it does not in good time."""
    ends = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < ends, f"it did not happen within {LIMIT:g} s"
        time.sleep(0.01)
