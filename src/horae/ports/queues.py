"""Queues, how deep they are, and limits of jobs that run at once."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.jobs.job import Order
    from horae.core.jobs.running_limits import LimitSource
    from horae.core.jobs.turns import Fair


@dataclass(frozen=True, slots=True)
class Queue:
    """A named stream of jobs and how it is served."""

    name: str
    order: Order = "priority"
    max_running: int | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    paused_until: datetime | None = None  # when the pause ends by itself; None: when an operator resumes it
    quiet_hours: str | None = None  # in which no job starts: 22:00-07:00
    quiet_zone: str = "UTC"
    quiet_since: datetime | None = None  # when they were set: the job that keeps them is of that instant
    fair: Fair | None = None  # between whom the queue is shared by turns; None: first come, first served
    quiet_at: datetime | None = None  # when they begin or end next; from then on no job starts until that was done

    def is_overdue(self, now: datetime) -> bool:
        """Return whether quiet hours have begun or ended and no process has acted on it yet."""
        return self.quiet_at is not None and self.quiet_at <= now


@dataclass(frozen=True, slots=True)
class OwnerHours:
    """The quiet hours of an owner, in which none of its jobs starts."""

    owner: str
    quiet_hours: str
    quiet_zone: str = "UTC"
    quiet_since: datetime | None = None  # when they were set: the job that keeps them is of that instant
    quiet_at: datetime | None = None  # when they begin or end next; from then on no job starts until that was done
    quiet_until: datetime | None = None  # when those of now end; None: outside them


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs of a queue are in a state, and how many of them are due and may start."""

    jobs: int
    due: int = 0


@dataclass(frozen=True, slots=True)
class DueBacklog:
    """Jobs of one queue that have been due since before an instant."""

    queue: str
    count: int
    oldest: datetime


class QueueRows(Protocol):
    def get(self, name: str, *, lock: bool = False) -> Queue | None: ...
    def all(self) -> list[Queue]: ...
    def put(self, queue: Queue) -> None: ...
    def limits(self) -> dict[str, int]: ...


class OwnerHoursRows(Protocol):
    def get(self, owner: str, *, lock: bool = False) -> OwnerHours | None: ...
    def all(self) -> list[OwnerHours]: ...
    def put(self, hours: OwnerHours) -> None: ...
    def remove(self, owner: str) -> None: ...


class LimitRows(Protocol):
    """Limits of jobs that run at once, and their sources."""

    def lock(self, name: str) -> None: ...
    def sources(self, name: str | None = None, *, app: str | None = None) -> list[LimitSource]: ...
    def put_source(self, source: LimitSource) -> None: ...
    def remove_source(self, name: str, app: str) -> None: ...
    def apply(self, name: str, max_running: int | None) -> None: ...
    def running(self) -> dict[str, int]: ...
