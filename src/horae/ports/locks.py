"""Locks by name, and limits of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from datetime import timedelta

    from horae.core.jobs.locks import LockHolder
    from horae.core.limits import Limit
    from horae.core.time.spans import Span


class Lock(Protocol):
    """A lock that was acquired: held until released, or until its time has run out."""

    @property
    def key(self) -> str: ...
    @property
    def token(self) -> str:
        """The proof of ownership: random, and new for each acquisition."""

    def extend(self, ttl: Span) -> bool:
        """Hold it for *ttl* from now on; false when it is no longer ours."""

    def release(self) -> bool:
        """Let go; false when it was no longer ours. Another holder's lock is never touched."""

    def __enter__(self) -> Lock: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Release; a lock that was lost meanwhile is reported in the log."""


class LockManager(Protocol):
    """Locks by name, shared by all who use the same back end. Not re-entrant; every lock has an end."""

    def try_lock(self, key: str, ttl: Span, wait: Span = 0, retry_interval: Span = 0.05) -> Lock | None:
        """Acquire the lock for *ttl*; None if another holder still has it after *wait*. Numbers are seconds."""

    def with_lock(self, key: str, ttl: Span, wait: Span = 0, retry_interval: Span = 0.05) -> Lock:
        """Acquire for a ``with`` block; raise ``LockNotAcquired`` instead of returning None."""


@runtime_checkable
class AttemptLocks(Protocol):
    """A lock manager that knows which attempt at a job holds a lock, so that a dead attempt's lock is taken over.

    One without this method works too: then the lock of a dead worker stays until its time has run out.
    """

    def try_lock_for(
        self, key: str, ttl: Span, holder: LockHolder, is_over: Callable[[LockHolder], bool]
    ) -> Lock | None:
        """Acquire for an attempt, also from an earlier attempt at the same job or one that *is_over*."""


@runtime_checkable
class BatchLocks(Protocol):
    """A lock manager that takes and releases many locks in one step, for jobs that begin or end together."""

    def try_lock_each(self, asked: Sequence[tuple[str, timedelta, LockHolder]]) -> list[Lock | None]:
        """Acquire each lock that is free, by key, lifetime and attempt; ask for the others with ``try_lock_for``."""

    def release_each(self, held: Sequence[Lock]) -> list[bool]:
        """Let go of locks of this manager; false for each that was no longer ours."""


class Limiter(Protocol):
    """Something that counts calls and says how long the next one has to wait."""

    def try_acquire(self) -> float | None:
        """Return None when the call is permitted, or the seconds to wait before asking again."""


class CallLog(Protocol):
    """The log of a rate limiter: the calls in the last window, and the waiting tickets."""

    @property
    def shared(self) -> bool:
        """Whether other processes use it, so that asking may block and places may move without us."""

    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        """Count a call under this ticket and answer 0, or answer how many seconds it must wait.

        With *stay* the ticket keeps its position in the queue (first come, first served) and must be presented again
        within a few seconds, or it loses the position. *ahead* is the number of waiters that the log does not know.
        """

    def drop(self, limit: Limit, ticket: str) -> None:
        """Forget a ticket, waiting or counted: its call was not made."""
