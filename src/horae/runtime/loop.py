"""Pauses of the runtime's loops; no other module sleeps.

An ``Alarm`` sleeps until an instant of the clock or until it is rung, from any thread, and never longer than its
caller allows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from horae.ports.world import Clock, Dice


class Alarm:
    """Let one task sleep until an instant, a ring or a limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the sleeper; call it from the loop's own thread."""
        self._rung.set()

    def ring_from_elsewhere(self) -> None:
        """Wake the sleeper from any thread; do nothing once its loop is closed."""
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._rung.set)
            except RuntimeError:
                return

    async def sleep(self, until: datetime | None, at_most: timedelta) -> bool:
        """Sleep until the instant, a ring or the limit; return whether it was a ring."""
        wait = at_most.total_seconds()
        if until is not None:
            wait = min(wait, (until - self._clock.now()).total_seconds())
        if wait > 0 and not self._rung.is_set():
            try:
                async with asyncio.timeout(wait):
                    await self._rung.wait()
            except TimeoutError:
                return False
        rang = self._rung.is_set()
        self._rung.clear()
        return rang

    async def until(self, holds: Callable[[], bool], at_most: timedelta) -> None:
        """Wait until a condition holds, checked at every ring, or the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most.total_seconds()):
                while at_most and not holds():  # a sleep of zero would never yield to other tasks
                    await self.sleep(None, at_most)


class Backoff:
    """Growing, jittered pauses while a store or a service does not answer."""

    def __init__(self, dice: Dice, first: float = 0.1, cap: float = 5.0) -> None:
        self._dice, self._first, self._cap = dice, first, cap
        self.failures = 0

    def reset(self) -> None:
        self.failures = 0

    def next(self) -> timedelta:
        self.failures += 1
        ceiling = min(self._cap, self._first * 2 ** min(self.failures - 1, 16))
        return timedelta(seconds=ceiling * (0.5 + self._dice.roll() / 2))

    async def pause(self) -> None:
        await asyncio.sleep(self.next().total_seconds())


async def give_way() -> None:
    """Let every task that is ready take a step."""
    await asyncio.sleep(0)


def sleep_in_thread(seconds: float) -> None:
    """Sleep in a thread that has no event loop and waits for nothing that could wake it."""
    time.sleep(seconds)


async def finish(patience: float, *tasks: asyncio.Task[None]) -> None:
    """Wait for tasks that were asked to end; cancel those that take longer than *patience* seconds."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=patience)
    for task in late:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
