"""Budgets: how much may be spent in a period.

A cost is reserved before the effect and settled after it; what is lost counts as spent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Period = Literal["day", "month", "ever"]
SPREAD = timedelta(minutes=10)  # over which the jobs that waited for a refill come back


@dataclass(frozen=True, slots=True)
class Budget:
    """A capacity in one unit for one period; settled and reserved together never exceed it by a reservation."""

    capacity: int
    settled: int = 0
    reserved: int = 0

    @property
    def left(self) -> int:
        return self.capacity - self.settled - self.reserved

    def has_room_for(self, amount: int) -> bool:
        return amount <= self.left

    @property
    def is_overdrawn(self) -> bool:
        return self.settled + self.reserved > self.capacity


def period_start(period: Period, now: datetime) -> datetime:
    """Return when the present period began, in UTC; a new period is a new row."""
    if period == "ever":
        return datetime(1970, 1, 1, tzinfo=UTC)
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day if period == "day" else day.replace(day=1)


def refill_at(period: Period, now: datetime, key: str) -> datetime | None:
    """Return when to come back for a budget that is empty, spread by a hash of the key; None: it is never refilled."""
    if period == "ever":
        return None
    start = period_start(period, now)
    after = start + timedelta(days=1) if period == "day" else (start + timedelta(days=32)).replace(day=1)
    share = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
    return after + SPREAD * share


def missing(budgets: Mapping[str, Budget], cost: Mapping[str, int]) -> str | None:
    """Return the first unit whose budget has no room for a cost; a unit without a budget is unlimited."""
    return next(
        (unit for unit, amount in cost.items() if unit in budgets and not budgets[unit].has_room_for(amount)), None
    )
