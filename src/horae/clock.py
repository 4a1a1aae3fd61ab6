"""The clocks and the dice: the only module that reads time or draws chance.

On one host, due times follow the system clock and leases follow the host's uptime, so that a clock step (by hand or by
NTP) neither ends a live lease nor keeps a dead worker's job. When several hosts share a
database, all of them follow that database's clock: its reading at the last measurement plus the monotonic time since,
so that a wrong or jumping system clock on one host can neither fire early nor steal a lease.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import random
import threading
import time
import zoneinfo
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from horae.core.time.boots import Boot, LeaseLine

if TYPE_CHECKING:
    from horae.ports.store import Store
    from horae.ports.world import Clock

BOOT_NAME = Path("/proc/sys/kernel/random/boot_id")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Ticking:
    """Durations of this host: measured by its monotonic clock, and waited for by really sleeping."""

    def monotonic(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        pause(seconds)

    async def pause_async(self, seconds: float) -> None:
        await pause_async(seconds)


class SystemClock(Ticking):
    """The host's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def steady(self) -> datetime:
        return self.now()


class HostClock(SystemClock):
    """The host's own time for due work; for leases its uptime from the lease line on, which no clock step moves."""

    def __init__(self, line: LeaseLine, uptime: Callable[[], timedelta], read: Callable[[], LeaseLine | None]) -> None:
        self._line = line
        self._uptime = uptime
        self._read = read

    def steady(self) -> datetime:
        if not self._line.is_stored:  # another writer kept it from being stored when the store was opened: try again
            self._line = self._read() or self._line
        return self._line.began_at + self._uptime()


def uptime() -> timedelta:
    """Read how long the host has been running, time asleep included. Without CLOCK_BOOTTIME, use the wall clock."""
    try:
        return timedelta(microseconds=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000)
    except (AttributeError, OSError):
        return datetime.now(UTC) - EPOCH


def boot_name() -> str:
    """Read the kernel's id of this boot; empty where there is none, or no clock of its uptime (only Linux has both)."""
    try:
        time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return BOOT_NAME.read_text(encoding="ascii").strip()
    except (AttributeError, OSError):
        return ""


def clock_of(
    store: Store,
    *,
    fix: bool = True,
    boot: Callable[[], str] = boot_name,
    uptime: Callable[[], timedelta] = uptime,
) -> Clock:
    """Make the clock that all processes on a store share; *fix* as in ``Store.lease_line``."""
    system, name = SystemClock(), boot()

    def read() -> LeaseLine | None:
        return store.lease_line(Boot(name, uptime()), now=system.now(), fix=fix)

    line = read()
    if line is None:
        following = StoreClock(store.read_time)
        following.now()  # measure while opening: later callers would queue up behind the first measurement
        return following
    return HostClock(line, uptime, read) if name else system


PROMPT = 1.0  # seconds: the longest way of an answer that may set a clock


class StoreClock(Ticking):
    """The database's time, carried forward by the monotonic clock between measurements.

    Only the first measurement blocks. Later ones run in the background: the caller may be an event loop, and the
    database may not answer.
    """

    def __init__(self, read_time: Callable[[], datetime | None], every: float = 60.0) -> None:
        self._read_time = read_time
        self._every = every
        self._lock = threading.Lock()
        self._anchor: tuple[datetime, float] | None = None
        self._due = float("-inf")
        self.offset = timedelta(0)

    def now(self) -> datetime:
        anchor = self._anchor or self._first()
        if time.monotonic() > self._due:
            self._measure_again()
        return anchor[0] + timedelta(seconds=time.monotonic() - anchor[1])

    def steady(self) -> datetime:
        return self.now()

    def follow(self, store_time: datetime, asked_at: float) -> None:
        """Take over a reading that came with another answer; one that was long on its way is left out.

        The next measurement of its own is put off by more than a minute, so that a process that looks at the store once
        a minute never needs one.
        """
        answered_at = time.monotonic()
        if answered_at - asked_at <= PROMPT:
            self._anchor = (store_time, answered_at)
            self.offset = store_time - datetime.now(UTC)
            self._due = answered_at + 1.5 * self._every

    def _first(self) -> tuple[datetime, float]:
        with self._lock:
            return self._anchor or self._measure()

    def _measure(self) -> tuple[datetime, float]:
        """Read the database's clock and anchor it when the answer came, so that ours is never ahead of it.

        Half-way between question and answer would be ahead by half of whatever came before the reading, and the first
        question opens a connection.
        """
        self._due = time.monotonic() + self._every
        store_time = self._read_time()
        self._anchor = (store_time or datetime.now(UTC), time.monotonic())
        self.offset = self._anchor[0] - datetime.now(UTC)
        return self._anchor

    def _measure_again(self) -> None:
        if self._lock.acquire(blocking=False):
            self._due = time.monotonic() + self._every  # one at a time, and not again at once when it fails
            threading.Thread(target=self._refresh, name="horae-clock", daemon=True).start()

    def _refresh(self) -> None:
        try:
            with suppress(Exception):  # the old measurement carries on until the database answers again
                self._measure()
        finally:
            self._lock.release()


class StoryClock:
    """Simulated time for demonstrations: it stands still until it is advanced."""

    def __init__(self, starts_at: datetime) -> None:
        self._starts_at = self._now = starts_at

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._starts_at).total_seconds()

    def steady(self) -> datetime:
        return self._now

    def pause(self, seconds: float) -> None:
        self.jump_to(self._now + timedelta(seconds=seconds))

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)
        await asyncio.sleep(0)

    def jump_to(self, instant: datetime) -> None:
        """Jump forward to an instant; an earlier one changes nothing."""
        self._now = max(self._now, instant)


def zone_database_version() -> str:
    """Return which edition of the zone database ``zoneinfo`` reads here; empty when it does not say."""
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
        return os.urandom((length + 1) // 2).hex()[:length]


def pause(seconds: float) -> None:
    """Sleep in this thread; what polls or waits takes this as an argument, so that tests can pass virtual time."""
    time.sleep(max(0.0, seconds))


async def pause_async(seconds: float) -> None:
    """Sleep without blocking the event loop."""
    await asyncio.sleep(max(0.0, seconds))
