"""Virtual time and loaded dice: a test moves the one and knows the other."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

from horae.core.time.instants import aware, from_iso, iso
from horae.errors import InvalidInput

NOON = datetime(2030, 1, 7, 12, tzinfo=UTC)  # a Monday


class VirtualClock:
    """A clock that stands still until it is moved; it never goes back."""

    def __init__(self, starts_at: datetime | str = NOON) -> None:
        self._now = from_iso(starts_at) if isinstance(starts_at, str) else aware(starts_at, "starts_at")
        self._started_at = self._now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._started_at).total_seconds()

    def steady(self) -> datetime:
        return self._now

    def pause(self, seconds: float) -> None:
        """Move forward by so many seconds instead of waiting for them."""
        self.advance(timedelta(seconds=max(0.0, seconds)))

    async def pause_async(self, seconds: float) -> None:
        """Move forward in the same way, and let other tasks of the event loop run."""
        self.pause(seconds)
        await asyncio.sleep(0)

    def advance(self, duration: timedelta) -> datetime:
        """Move forward by a span; answers with the new time."""
        return self.move_to(self._now + duration)

    def move_to(self, instant: datetime) -> datetime:
        """Move forward to an instant; answers with it."""
        if instant < self._now:
            raise InvalidInput("clock_backwards", now=iso(self._now), instant=iso(instant))
        self._now = instant
        return instant


class LoadedDice:
    """Chance that repeats itself: the same seed draws the same numbers and names."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def roll(self) -> float:
        return self._random.random()

    def name(self, length: int = 12) -> str:
        return "".join(self._random.choice("0123456789abcdef") for _ in range(length))
