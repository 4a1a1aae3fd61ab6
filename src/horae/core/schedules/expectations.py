"""When an expected run has to have succeeded, and what follows when it has not.

A *deadline* belongs to an occurrence: a fire of the schedule, or, for ``every``, the last success. It is met by a run
that ends well between the two. ``expected_since`` of a schedule says up to where deadlines are judged; a success moves
it in the transaction that ends the job, a check judges what has passed. So judging twice, late, or by several processes
comes to the same.

What is not due is not expected: a schedule that is off, paused, inactive, spent or at its end, and days and hours that
a calendar or quiet hours leave out.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.schedules.expect import Expect, read_expect
from horae.core.schedules.schedule import Schedule, changed, next_fire
from horae.core.time.cron import Cron
from horae.core.time.instants import MICROSECOND, earlier, later
from horae.errors import InvalidInput

MissedState = Literal["waiting", "open", "recovered", "dropped"]  # "waiting": of a job, its time has not come
STATES: tuple[MissedState, ...] = ("waiting", "open", "recovered", "dropped")
OF_JOB = "job:"  # how the subject of what is expected of a single job begins
MOST_JUDGED = 1000  # deadlines in one check; after a long silence the next check follows at once


@dataclass(frozen=True, slots=True)
class Deadline:
    """By when a run must have succeeded that was due at *since*, and up to where is judged once it has passed."""

    since: datetime
    at: datetime
    judged: datetime

    def after(self, success: datetime, expect: Expect) -> datetime:
        """Return up to where is judged after a success, in time or not."""
        if expect.every is not None:
            return success
        return max(self.judged, success) if expect.by is None and success <= self.at else self.judged


@dataclass(frozen=True, slots=True)
class Misses:
    """Deadlines in a row that were not met: the first one, when the last one was, and how many."""

    first: Deadline
    last_at: datetime
    count: int = 1

    def and_one(self, deadline: Deadline) -> Misses:
        return replace(self, last_at=deadline.at, count=self.count + 1)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a check has found, the schedule as it is to be stored, and when to check again; None: never.

    *late* were missed and made up for by a success at *recovered_at*, *open* were not. A success also closes what was
    found missing before.
    """

    schedule: Schedule
    late: Misses | None = None
    recovered_at: datetime | None = None
    open: Misses | None = None
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MissedRun:
    """The record of an expectation that was not met, and of how often in a row; closed when a run succeeds.

    It is dropped when nothing is expected any more: the schedule was paused, switched off, changed or deleted. What is
    expected of a single job has its row from the enqueue on, and none once it was met.
    """

    subject: str
    schedule: str  # empty where it is about a job
    owner: str
    handler: str
    queue: str
    expect: str
    expected_at: datetime
    due_at: datetime
    last_due_at: datetime
    found_at: datetime
    count: int = 1
    state: MissedState = "open"
    ended_at: datetime | None = None
    reason: str | None = None
    told: int = 0  # 1: that it was missed; 2: that it has recovered
    check_job: int | None = None  # of a job: which of Horae's own looks after it
    number: int = 0

    @property
    def id(self) -> str:
        return f"miss_{self.number}"

    @property
    def job_number(self) -> int | None:
        """The job that it is about; None where it is about a schedule."""
        return int(self.subject.removeprefix(OF_JOB)) if self.subject.startswith(OF_JOB) else None

    @property
    def job(self) -> str | None:
        """The id of the job that it is about."""
        return None if self.job_number is None else job_id(self.job_number)


def is_expected(schedule: Schedule) -> bool:
    """Return whether anything is expected of a schedule as it is."""
    return schedule.expect is not None and schedule.is_active and schedule.mode == "SINGLE_NODE"


def next_deadline(schedule: Schedule, since: datetime) -> Deadline | None:
    """Return the first deadline of the occurrences after an instant; None where no run is expected any more."""
    if not is_expected(schedule):
        return None
    expect, rule = read_expect(schedule.expect or ""), schedule.rule
    fire = None if rule is None else _next_expected(schedule, since)
    if rule is None:
        if schedule.is_spent or expect.within is not None:
            return None
    elif fire is None:
        return None
    if expect.by is not None:
        at = next_time(expect, schedule.zone, since if fire is None else fire)
        if at is None:
            return None
        return Deadline(since if fire is None else fire, at, at if fire is None else earlier(at, MICROSECOND))
    length = expect.length or timedelta(0)
    if expect.within is not None:
        assert fire is not None
        return Deadline(fire, later(fire, length + schedule.jitter), fire)
    # A night, a weekend or a pause longer than the span: it counts from the first fire after it.
    at = later(since, length)
    if fire is not None and not schedule.rests and fire > at:
        at = later(fire, length)
    return Deadline(later(since, MICROSECOND), at, at)


def begin(schedule: Schedule, now: datetime) -> datetime:
    """Return since when runs of a schedule are expected that is made, changed or resumed now."""
    first = schedule.next_fire_at
    return now if first is None or first > now else earlier(first, MICROSECOND)


def after_success(schedule: Schedule, now: datetime) -> Schedule | None:
    """Return a schedule after a run of it has succeeded now; None where that changes nothing.

    A success after the deadline is left to the check, which closes the record; ``succeeded_at`` says that it came.
    """
    since = schedule.expected_since
    if not is_expected(schedule) or since is None:
        return None
    try:
        deadline = next_deadline(schedule, since)
    except InvalidInput:  # its zone is unknown here: a process that knows it will judge
        return changed(schedule, succeeded_at=now)
    is_late = deadline is not None and now > deadline.at
    if is_late or schedule.missed_at is not None or schedule.succeeded_at is not None:
        return changed(schedule, succeeded_at=now)
    if deadline is None or now < deadline.since:
        return None
    return changed(schedule, expected_since=deadline.after(now, read_expect(schedule.expect or "")))


def judge(schedule: Schedule, now: datetime) -> Judgement:
    """Judge the deadlines that have passed."""
    since, success = schedule.expected_since or now, schedule.succeeded_at
    if not is_expected(schedule):
        return Judgement(changed(schedule, succeeded_at=None, missed_at=None))
    expect = read_expect(schedule.expect or "")
    late: Misses | None = None
    missed: Misses | None = None
    deadline = next_deadline(schedule, since)
    for _ in range(MOST_JUDGED):
        if deadline is None:
            break
        if success is not None and deadline.since <= success <= deadline.at:
            since = deadline.after(success, expect)
        elif deadline.at > now:
            break
        elif success is not None and deadline.at < success:
            late = Misses(deadline, deadline.at) if late is None else late.and_one(deadline)
            since = deadline.after(success, expect)
        else:
            missed = Misses(deadline, deadline.at) if missed is None else missed.and_one(deadline)
            since = deadline.judged
        deadline = next_deadline(schedule, since)
    open_at = schedule.missed_at if success is None else None
    if missed is not None:
        open_at = open_at or missed.first.at
    judged = changed(schedule, expected_since=since, succeeded_at=None, missed_at=open_at)
    again_at = None if deadline is None else max(deadline.at, now)
    return Judgement(judged, late, success, missed, again_at)


def _next_expected(schedule: Schedule, since: datetime) -> datetime | None:
    """Return the next fire after an instant that is still to come, or was made."""
    fire = next_fire(schedule, since)
    if fire is None or not schedule.is_spent:
        return fire
    return fire if schedule.last_fire_at is not None and fire <= schedule.last_fire_at else None


def next_time(expect: Expect, zone: str, after: datetime) -> datetime | None:
    """Return the first such time of day after an instant."""
    return _times(str(expect.by), expect.zone or zone).next_after(after)


@lru_cache(maxsize=1024)
def _times(by: str, zone: str) -> Cron:
    hour, minute = by.split(":")
    return Cron(f"{int(minute)} {int(hour)} * * *", zone)
