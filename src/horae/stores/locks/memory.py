"""Locks of one process: nothing outside it is excluded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from horae.ports.world import Clock, Dice
from horae.stores.locks.base import Locks


class MemoryLocks(Locks):
    """For a single process, and for tests."""

    def __init__(self, clock: Clock, dice: Dice, pause: Callable[[float], None]) -> None:
        super().__init__(clock, dice, pause)
        self._held: dict[str, tuple[str, float]] = {}
        self._guard = threading.Lock()

    def put(self, key: str, token: str, ttl: timedelta) -> bool:
        now = self._clock.monotonic()
        with self._guard:
            if key in self._held and self._held[key][1] > now:
                return False
            self._held[key] = (token, now + ttl.total_seconds())
            return True

    def move(self, key: str, token: str, ttl: timedelta) -> bool:
        now = self._clock.monotonic()
        with self._guard:
            if not self._is_held(key, token, now):
                return False
            self._held[key] = (token, now + ttl.total_seconds())
            return True

    def remove(self, key: str, token: str) -> bool:
        now = self._clock.monotonic()
        with self._guard:
            if not self._is_held(key, token, now):
                return False
            del self._held[key]
            return True

    def peek(self, key: str) -> str | None:
        now = self._clock.monotonic()
        with self._guard:
            found = self._held.get(key)
            return found[0] if found is not None and found[1] > now else None

    def swap(self, key: str, seen: str, token: str, ttl: timedelta) -> bool:
        now = self._clock.monotonic()
        with self._guard:
            if key not in self._held or self._held[key][0] != seen:
                return False
            self._held[key] = (token, now + ttl.total_seconds())
            return True

    def _is_held(self, key: str, token: str, now: float) -> bool:
        found = self._held.get(key)
        return found is not None and found[0] == token and found[1] > now
