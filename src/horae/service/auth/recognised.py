"""Callers that were recognised a moment ago, so that not every request asks the store for the same token.

An entry counts for as long as the watch over waiting callers lets a revoked token go on, less than a second: what
another process revokes, limits or deletes ends here as it ends a long poll. What is changed over this process is
forgotten before the answer says so. Tokens are not kept, only digests of them.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime

from horae.core.access.callers import Caller
from horae.service.auth.validity import EVERY

MOST = 10_000  # the entry that was made first is dropped first


class Recognised:
    """Callers by the digest of their token. Without a clock nothing is kept."""

    def __init__(self, monotonic: Callable[[], float] | None, most: int = MOST) -> None:
        self._monotonic = monotonic
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()  # with the time until which it counts
        self._changes = 0

    def __len__(self) -> int:
        return len(self._known)

    def find(self, text: str, now: Callable[[], datetime]) -> Caller | None:
        """Return the caller of a token that was recognised a moment ago and has not expired since."""
        found = None if self._monotonic is None else self._known.get(_digest(text))
        if found is None or self._monotonic is None:
            return None
        caller, until = found
        if self._monotonic() >= until or (caller.expires_at is not None and caller.expires_at <= now()):
            return None
        return caller

    def begin(self) -> tuple[int, float]:
        """Return a mark for :meth:`keep`, before the store is asked."""
        return self._changes, 0.0 if self._monotonic is None else self._monotonic()

    def keep(self, text: str, caller: Caller, mark: tuple[int, float]) -> None:
        """Keep a caller whom the store recognised, unless something was changed since the store was asked."""
        changes, began = mark
        if self._monotonic is None:
            return
        with self._lock:
            if changes != self._changes:
                return
            digest = _digest(text)
            self._known[digest] = (caller, began + EVERY.total_seconds())
            self._known.move_to_end(digest)
            if len(self._known) > self._most:
                self._known.popitem(last=False)

    def forget(self) -> None:
        """Forget all, because a token, an owner or a scope may have been changed."""
        with self._lock:
            self._changes += 1
            self._known.clear()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
