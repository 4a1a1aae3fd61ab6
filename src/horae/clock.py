"""The clocks and the dice: the only module that reads time or draws chance.

On one host the system's time rules. When several hosts share a database, all of them follow that database's
clock: its reading at the last measurement plus the monotonic time since, so that a wrong or jumping system
clock on one host can neither fire early nor steal a lease.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import random
import secrets
import threading
import time
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path


class SystemClock:
    """The host's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class StoreClock:
    """The database's time, carried forward by the monotonic clock between measurements."""

    def __init__(self, read_time: Callable[[], datetime | None], every: float = 60.0) -> None:
        self._read_time = read_time
        self._every = every
        self._lock = threading.Lock()
        self._anchor: tuple[datetime, float] | None = None
        self.offset = timedelta(0)

    def now(self) -> datetime:
        anchor = self._anchor
        mono = time.monotonic()
        if anchor is None or mono - anchor[1] > self._every:
            anchor = self._measure(anchor)
        return anchor[0] + timedelta(seconds=time.monotonic() - anchor[1])

    def monotonic(self) -> float:
        return time.monotonic()

    def _measure(self, known: tuple[datetime, float] | None) -> tuple[datetime, float]:
        if not self._lock.acquire(blocking=known is None):
            return known or (datetime.now(UTC), time.monotonic())
        try:
            sent = time.monotonic()
            try:
                store_time = self._read_time()
            except Exception:
                if known is None:
                    raise
                return known  # the old measurement carries on until the database answers again
            got = time.monotonic()
            self._anchor = (store_time or datetime.now(UTC), (sent + got) / 2)
            self.offset = self._anchor[0] - datetime.now(UTC)
            return self._anchor
        finally:
            self._lock.release()


def zone_database_version() -> str:
    """Which edition of the zone database ``zoneinfo`` reads here; empty when it does not say."""
    for folder in zoneinfo.TZPATH:
        for name in ("tzdata.zi", "+VERSION"):
            path = Path(folder) / name
            if path.is_file():
                with path.open(encoding="utf-8", errors="replace") as lines:
                    return lines.readline().removeprefix("# version").strip()
    try:
        return importlib.metadata.version("tzdata")
    except importlib.metadata.PackageNotFoundError:
        return ""


class SystemDice:
    """Ordinary chance."""

    def roll(self) -> float:
        return random.random()

    def name(self, length: int = 12) -> str:
        return secrets.token_hex((length + 1) // 2)[:length]


def pause(seconds: float) -> None:
    """Sleep in this thread; what polls or waits takes this as an argument, so that tests can pass virtual time."""
    time.sleep(max(0.0, seconds))


async def pause_async(seconds: float) -> None:
    """The same without blocking the event loop."""
    await asyncio.sleep(max(0.0, seconds))
