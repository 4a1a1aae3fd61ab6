"""Schedules, their fires and their tallies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.jobs.job import Job, NewJob, Settlement
    from horae.core.schedules.day_lists import Calendar
    from horae.core.schedules.expectations import MissedRun
    from horae.core.schedules.schedule import Fire, Firing, Schedule, ScheduleResult, Unfinished

Occurrence = tuple[int, datetime]  # the number of a schedule, and an instant
FindRecorded = Callable[[Sequence[Occurrence]], set[Occurrence]]  # those of the occurrences that have a record
Decide: TypeAlias = "Callable[[list[Schedule], dict[int, Unfinished], FindRecorded], list[tuple[Firing, list[NewJob]]]]"
EndSilent: TypeAlias = "Callable[[Job], Settlement]"  # the end of a running job that showed no progress for too long


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """A filter for schedules; None means any."""

    owner: str | None = None
    group: str | None = None
    handler: str | None = None
    mode: str | None = None
    enabled: bool | None = None
    declared: bool | None = None
    kind: str | None = None
    not_tzdata: str | None = None  # computed with another zone database than this one
    toggled: bool | None = None  # whether a toggle that a restart forgets is in force
    queues: tuple[str, ...] = ()  # only those that fire into one of these; none named means any
    text: str | None = None  # somewhere in its key, title or handler
    calendar: str | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """A summary of a schedule's runs, over the whole cluster."""

    run_count: int = 0
    fail_count: int = 0
    last_outcome: str | None = None
    last_started_at: datetime | None = None
    last_finished_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class FiredQuarter:
    """How many fires of a quarter of an hour had a verdict."""

    at: datetime
    verdict: str
    count: int


class CalendarRows(Protocol):
    """Calendars inside one transaction."""

    def get(self, name: str, *, lock: bool = False) -> Calendar | None: ...
    def all(self) -> list[Calendar]: ...
    def add(self, calendar: Calendar) -> None: ...
    def put(self, calendar: Calendar) -> None: ...
    def remove(self, name: str) -> None: ...


class ExpectationRows(Protocol):
    """Records of expectations that were not met, inside one transaction."""

    def get(self, subject: str, due_at: datetime) -> MissedRun | None: ...
    def open_of(self, subject: str) -> MissedRun | None: ...
    def of_job(self, subject: str, *, lock: bool = False) -> MissedRun | None:
        """Return what is expected of a job, while it waits or is missing."""

    def add(self, missed: MissedRun) -> None: ...
    def remove(self, number: int) -> None: ...
    def put(self, missed: MissedRun) -> None: ...
    def find(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        schedule: str | None = None,
        job: str | None = None,
        queues: Collection[str] = (),
        limit: int,
        before: int | None = None,
    ) -> list[MissedRun]:
        """Return records, the newest first; those that wait only where that state is asked for. *job*: a subject."""

    def count_open(self, owner: str | None = None) -> int: ...
    def untold(self, since: datetime, *, limit: int) -> list[MissedRun]:
        """Return open records of which no alert was sent, and those that recovered since an instant untold."""

    def without_check(self, *, limit: int) -> list[MissedRun]:
        """Return what is expected of jobs, and has no job of Horae's own that would look after it."""

    def tell(self, number: int, news: int) -> None: ...
    def forget(self, before: datetime, *, limit: int) -> int: ...


class ScheduleRows(Protocol):
    """Schedules inside one transaction."""

    def get(self, key: str, owner: str, *, lock: bool = False) -> Schedule | None: ...
    def by_number(self, numbers: Iterable[int]) -> dict[int, Schedule]: ...
    def find(self, wanted: ScheduleFilter, *, limit: int, after: Schedule | str | None) -> list[Schedule]: ...
    def find_by_next(
        self, wanted: ScheduleFilter, *, limit: int, after: tuple[datetime | None, int] | None
    ) -> list[Schedule]: ...
    def count_enabled(self, owner: str) -> int: ...
    def by_keys(self, keys: Collection[str], owner: str, *, lock: bool = False) -> dict[str, Schedule]: ...
    def add(self, new: Sequence[Schedule]) -> list[int]: ...
    def put(self, schedule: Schedule, *, expected_version: int) -> None: ...
    def remove(self, number: int) -> None: ...
    def follow(self, number: int, followed: Iterable[int]) -> None: ...
    def followers(self, number: int) -> list[str]: ...
    def unfinished(self, number: int) -> Unfinished: ...
    def without_fire(self, now: datetime, *, limit: int) -> list[Schedule]:
        """Return schedules that are on, have no next fire, and no unfinished job whose end would give them one."""

    def note_expectation(self, schedule: Schedule) -> None:
        """Write what is judged, what is missing and the job of the next check; the version stays."""

    def without_check(self, *, limit: int) -> list[Schedule]:
        """Return schedules of which something is expected, without a live job that checks it."""

    def awaited(self, number: int) -> bool:
        """Return whether a job of it is unfinished whose end the schedule will learn of."""

    def record(self, number: int, fire: Fire, job_id: int | None, now: datetime) -> None: ...
    def recorded(self, number: int, start: datetime, end: datetime) -> set[datetime]: ...
    def history(self, number: int, *, limit: int, before: datetime | None) -> list[tuple[Fire, int | None]]: ...
    def was_fired(self, number: int, fire_at: datetime, job_id: int) -> bool:
        """Return whether this job came from the schedule's own rhythm, not from a hand or a backfill."""

    def has_fired_since(self, number: int, fire_at: datetime, since: datetime) -> bool:
        """Return whether a later occurrence has become a job since that instant."""

    def next_due(self, owner: str | None, queues: Collection[str], *, limit: int) -> list[Schedule]:
        """Return the schedules that fire next, in that order; with *queues* only those that fire into them."""

    def results(self, numbers: Collection[int], *, limit: int) -> dict[int, list[ScheduleResult]]:
        """Return the last results of each of these schedules, the newest first."""

    def fired_by_quarter(
        self, since: datetime, *, owner: str | None, queues: Collection[str], most: int
    ) -> tuple[list[FiredQuarter], datetime | None]:
        """Count fires since an instant by quarter of an hour and verdict, from the *most* newest records.

        Also how far back these reach; None where that is all.
        """

    def fired_between(
        self, begin: datetime, end: datetime, recorded_before: datetime, *, owner: str | None, queues: Collection[str],
        most: int, limit: int,
    ) -> list[tuple[Schedule, int, int]]:  # fmt: skip
        """Return schedules that fired in a span, how often they ran and how often not, the busiest first."""

    def tallies(self, numbers: Iterable[int]) -> dict[int, Tally]: ...
    def handler_tallies(self, handlers: Iterable[str]) -> dict[str, Tally]: ...
    def skipped(self, numbers: Iterable[int]) -> set[int]: ...
