"""Locks by name: what the three back ends have in common.

A lock excludes others for a while; it does not make anything happen once. So it always has an end, it is released
and extended only with its current token, and losing it is reported, never hidden.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta

from horae.core.jobs.locks import LockHolder
from horae.core.jobs.retry import LONGEST
from horae.core.time.spans import Span, span
from horae.errors import HoraeError, InvalidInput, InvalidName, LockNotAcquired
from horae.ports.world import Clock, Dice

log = logging.getLogger("horae.locks")
TOKEN_LENGTH = 32  # hexadecimal characters: 128 random bits
MAX_KEY_LENGTH = 200


class Locks(ABC):
    """The port ``LockManager``; subclasses know how to set, move and remove one entry, each in one atomic step."""

    def __init__(self, clock: Clock, dice: Dice, pause: Callable[[float], None]) -> None:
        self._clock = clock
        self._dice = dice
        self._pause = pause

    # -- what a back end must know -------------------------------------------------------------------------------

    @abstractmethod
    def put(self, key: str, token: str, ttl: timedelta) -> bool:
        """Set the entry if there is none, or only one whose time has run out."""

    @abstractmethod
    def move(self, key: str, token: str, ttl: timedelta) -> bool:
        """Let the entry end *ttl* from now, if it is still there with this token."""

    @abstractmethod
    def remove(self, key: str, token: str) -> bool:
        """Take the entry away, if it is still there with this token."""

    @abstractmethod
    def peek(self, key: str) -> str | None:
        """Return the token of the entry; None when there is no entry, or only one whose time has run out."""

    @abstractmethod
    def swap(self, key: str, seen: str, token: str, ttl: timedelta) -> bool:
        """Replace the entry, if it still has the token that was seen."""

    # -- the port ------------------------------------------------------------------------------------------------

    def try_lock(self, key: str, ttl: Span, wait: Span = 0, retry_interval: Span = 0.05) -> HeldLock | None:
        """Acquire the lock for *ttl*; None if another holder still has it after *wait*."""
        checked_key(key)
        lasting, patience, interval = checked_ttl(ttl), span(wait).total_seconds(), span(retry_interval).total_seconds()
        if patience > 0 and interval <= 0:
            raise InvalidInput("retry_interval_too_short")
        deadline = self._clock.monotonic() + patience
        while True:
            token = self._dice.name(TOKEN_LENGTH)
            if self.put(key, token, lasting):
                return HeldLock(self, key, token)
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return None
            self._pause(min(interval, left))

    def try_lock_for(
        self, key: str, ttl: Span, holder: LockHolder, is_over: Callable[[LockHolder], bool]
    ) -> HeldLock | None:
        """Acquire the lock for an attempt at a job, without waiting; None if another attempt holds it.

        The lock of an earlier attempt at the same job is taken over, and so is one of another attempt that *is_over*.
        Its old holder, if it still lives, can neither extend nor release it any more.
        """
        checked_key(key)
        lasting = checked_ttl(ttl)
        token = self.token_of(holder)
        if self.put(key, token, lasting):
            return HeldLock(self, key, token)
        seen = self.peek(key)
        if seen is None:  # released or ended since
            return HeldLock(self, key, token) if self.put(key, token, lasting) else None
        other = LockHolder.read(seen)
        if other is None or not (holder.follows(other) or is_over(other)):
            return None
        return HeldLock(self, key, token) if self.swap(key, seen, token, lasting) else None

    def token_of(self, holder: LockHolder) -> str:
        """Return a fresh proof of ownership that names the attempt."""
        return holder.value(self._dice.name(TOKEN_LENGTH))

    def with_lock(self, key: str, ttl: Span, wait: Span = 0, retry_interval: Span = 0.05) -> HeldLock:
        """Acquire for a ``with`` block; raise ``LockNotAcquired`` instead of returning None."""
        lock = self.try_lock(key, ttl, wait, retry_interval)
        if lock is None:
            raise LockNotAcquired(key)
        return lock


class HeldLock:
    """A lock that was acquired."""

    __slots__ = ("_locks", "_released", "key", "token")

    def __init__(self, locks: Locks, key: str, token: str) -> None:
        self._locks = locks
        self._released = False
        self.key = key
        self.token = token

    def extend(self, ttl: Span) -> bool:
        """Hold it for *ttl* from now on; false when it is no longer ours."""
        return self._locks.move(self.key, self.token, checked_ttl(ttl))

    def restore(self, ttl: Span) -> bool:
        """Acquire the lock again after its back end forgot it; False if another holder has it by now."""
        return self._locks.put(self.key, self.token, checked_ttl(ttl))

    def release(self) -> bool:
        """Let go; false when it was no longer ours."""
        self._released = True
        return self._locks.remove(self.key, self.token)

    def __enter__(self) -> HeldLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._released:
            return
        try:
            kept = self.release()
        except HoraeError as problem:
            if error is None:
                raise
            log.warning("Lock %s could not be released and will end by itself: %s", self.key, problem)
            return  # what went wrong inside the block matters more
        if not kept:
            log.warning("Lock %s was lost before its block ended: give it a longer ttl, or extend it", self.key)

    def __repr__(self) -> str:
        return f"<lock {self.key}>"  # the token stays out of logs: it allows releasing the lock


def checked_key(key: str) -> str:
    if not key or len(key) > MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidName("lock_key_unreadable", key=repr(key)[:60], most=MAX_KEY_LENGTH)
    return key


def checked_ttl(ttl: Span) -> timedelta:
    lasting = span(ttl)
    if lasting > LONGEST:
        raise InvalidInput("lock_ttl_too_long", ttl=lasting.total_seconds(), most_days=LONGEST.days)
    if lasting < timedelta(milliseconds=1):
        raise InvalidInput("lock_ttl_too_short", ttl=lasting.total_seconds())
    return lasting
