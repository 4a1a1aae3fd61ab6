"""Ways out of a handler that are neither success nor failure."""

from __future__ import annotations

from datetime import timedelta

from horae.core.time.spans import Span, span


class Snooze(Exception):
    """Raise in a handler: not now, ask again after *delay*; no attempt is counted."""

    def __init__(self, delay: Span, reason: str = "") -> None:
        self.delay: timedelta = span(delay)
        self.reason = reason
        super().__init__(reason or f"snoozed for {self.delay}")


class Cancel(Exception):
    """Raise in a handler: this job is no longer wanted; it ends as cancelled and is not tried again."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "cancelled by its handler")


class BudgetEmpty(Snooze):
    """Raised by ``ctx.spend`` when a budget has no room: the job comes back at the refill; no attempt is counted.

    Let it pass. The handler begins again then, from its last checkpoint.
    """
