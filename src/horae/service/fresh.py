"""A cached answer with a minimum age, so that frequent requests cannot overload its source."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
SHARE = 0.05  # the largest share of time spent on computing the answer


class Fresh(Generic[T]):
    """Compute an answer again when the last one is old: one caller does, and callers meanwhile get the old one.

    The longer an answer took to compute, the longer it is kept.
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
            if self._known is not None:  # computed by another thread meanwhile
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
