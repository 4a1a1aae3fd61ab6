"""An answer that stays good for a while, so that asking often cannot hurt whoever has to find it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
SHARE = 0.05  # of all time, at most, is spent on finding the answer


class Fresh(Generic[T]):
    """Asks again when the last answer is old: one caller does, and those who come meanwhile get the old one.

    The longer an answer took to find, the longer it stays good.
    """

    def __init__(self, ask: Callable[[], T], ticks: Callable[[], float], least: float) -> None:
        self._ask, self._ticks, self._least = ask, ticks, least
        self._lock = threading.Lock()
        self._known: tuple[T, float] | None = None

    def get(self) -> T:
        known = self._known
        if known is not None and (self._ticks() < known[1] or not self._lock.acquire(blocking=False)):
            return known[0]
        if known is None:
            self._lock.acquire()
            if self._known is not None:  # found while we waited
                self._lock.release()
                return self._known[0]
        try:
            began = self._ticks()
            answer = self._ask()
            ended = self._ticks()
            self._known = (answer, ended + max(self._least, (ended - began) / SHARE))
            return answer
        finally:
            self._lock.release()
