"""Runs, as an administrator looks through them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.jobs.job import Run


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter for runs; None means any.

    Without a schedule and a handler: those of all schedules, and of code that is only tracked.
    """

    schedule_id: int | None = None
    handler: str | None = None
    owner: str | None = None
    outcomes: tuple[str, ...] = ()
    started_after: datetime | None = None
    started_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Logged:
    """A run with the key of its schedule, and what set it off: ``schedule``, ``manual``, ``backfill`` or ``job``."""

    run: Run
    key: str | None
    trigger: str


class LogRows(Protocol):
    """Runs inside one transaction, as an administrator looks through them."""

    def find(self, wanted: LogFilter, *, limit: int, before: tuple[int, int] | None) -> list[Logged]: ...
    def get(self, number: int, token: int) -> Logged | None: ...
    def count(self, wanted: LogFilter) -> int: ...
    def count_old(self, wanted: LogFilter, before: datetime) -> int: ...
    def remove_old(self, wanted: LogFilter, before: datetime, *, limit: int) -> int: ...
