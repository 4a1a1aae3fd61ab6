"""What is expected of a single job: that it has succeeded ``within 10m`` of being due, or ``by`` a time.

It is kept in a row of its own, written with the job, and looked after by a job of Horae's own that is due at the
deadline. What that finds is decided here: row, job and now in, what follows out. So looking twice, late, or by several
processes comes to the same.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.jobs.batch import HELD_BY_BATCH
from horae.core.jobs.job import Job, NewJob
from horae.core.jobs.machinery import EXPECT, MACHINERY, PERSISTENT
from horae.core.jobs.payloads import encode
from horae.core.schedules.expect import Expect, read_expect
from horae.core.schedules.expectations import OF_JOB, MissedRun, next_time
from horae.core.time.instants import iso, later
from horae.errors import InvalidInput

NOTHING = "none"  # in `using`: nothing is expected, whatever the declaration says
SOONEST, LATEST = timedelta(seconds=5), timedelta(minutes=5)  # between two looks at a job that is missing
PAUSED_LOOK = timedelta(minutes=1)  # at least, before a job that may not run is looked at again


def job_expect(value: Expect | str | None) -> str | None:
    """Return what is expected of a job as it is stored; refuse what a single job cannot be asked."""
    if value is None or value == NOTHING:
        return None
    expect = value if isinstance(value, Expect) else read_expect(value)
    if expect.every is not None:
        raise InvalidInput("expect_every_of_job", expect=str(expect))
    return str(expect)


def deadline_of(text: str, due: datetime) -> datetime:
    """Return by when a job must have succeeded that is due at *due*."""
    expect = read_expect(text)
    if expect.length is not None:
        return later(due, expect.length)
    return expect.instant or next_time(expect, "UTC", due) or due


def subject_of(number: int) -> str:
    return f"{OF_JOB}{number}"


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of a new job: as text, from when on it counts, and by when it must have succeeded."""

    text: str
    due: datetime
    at: datetime

    def row(self, new: NewJob, number: int, check_job: int, now: datetime) -> MissedRun:
        """Return what is to be stored about it."""
        return MissedRun(
            subject=subject_of(number), schedule="", owner=new.owner, handler=new.handler, queue=new.queue,
            expect=self.text, expected_at=self.due, due_at=self.at, last_due_at=self.at, found_at=now, count=0,
            state="waiting", check_job=check_job,
        )  # fmt: skip

    def check(self, new: NewJob, number: int) -> NewJob:
        """Return the job of Horae's own that looks after it."""
        return check_of(number, new.owner, self.at)


def expected_of(value: Expect | str | None, run_at: datetime, now: datetime) -> Expected | None:
    """Return what is expected of a new job; refuse an instant at which it cannot have succeeded yet.

    One whose time has passed counts from now.
    """
    text = job_expect(value)
    if text is None:
        return None
    due = max(run_at, now)
    at = deadline_of(text, due)
    if at <= due:
        raise InvalidInput("expect_before_due", expect=text, run_at=iso(due))
    return Expected(text, due, at)


def check_of(number: int, owner: str, at: datetime) -> NewJob:
    """Return the job of Horae's own that looks at a deadline whether the job has succeeded."""
    return NewJob(
        handler=EXPECT,
        payload=encode({"job": job_id(number), "owner": owner}),
        queue=MACHINERY,
        band=0,
        run_at=at,
        planned_at=at,
        owner=owner,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What a look has found: the row as it is to be stored, None where it goes, and when to look again."""

    row: MissedRun | None
    again_at: datetime | None = None


def judge_job(row: MissedRun, job: Job | None, now: datetime, *, held_until: datetime | None = None) -> Found:
    """Judge what is expected of a job; *held_until*: its queue or its owner may not run anything before then.

    A job that is dead is missing, and may be revived. One that was cancelled is not expected any more, nor is one that
    is no longer on record, which had ended.
    """
    if job is None or job.state == "cancelled":
        gone = "gone" if job is None else "cancelled"
        return Found(replace(row, state="dropped", ended_at=now, reason=gone) if row.state == "open" else None)
    if job.state == "succeeded":
        at = job.finished_at or now
        if row.state == "waiting" and at <= row.due_at:
            return Found(None)
        found_at = now if row.state == "waiting" else row.found_at
        return Found(replace(row, state="recovered", count=1, ended_at=max(at, row.due_at), found_at=found_at))
    if row.state == "open":
        return Found(row, later(now, min(max((now - row.due_at) / 10, SOONEST), LATEST)))
    deadline = _later_deadline(row, job, now, held_until)
    if deadline is not None:
        return Found(moved(row, row.expected_at, deadline), deadline)
    if now < row.due_at:
        return Found(row, row.due_at)
    return Found(replace(row, state="open", count=1, found_at=now), later(now, SOONEST))


def moved(row: MissedRun, due: datetime, at: datetime) -> MissedRun:
    """Return what is expected with another deadline, of a job that is due at *due* now."""
    return replace(row, expected_at=due, due_at=at, last_due_at=at)


def _later_deadline(row: MissedRun, job: Job, now: datetime, held_until: datetime | None) -> datetime | None:
    """Return the later deadline of a job that is not due yet, or may not run; None where it stands.

    An instant does not move. A span counts anew while the job waits for others, because it is due only after them.
    """
    length = read_expect(row.expect).length
    if now < row.due_at or job.state != "queued":
        return None
    if held_until is not None:
        return later(max(held_until, now), max(length or PAUSED_LOOK, PAUSED_LOOK))
    waits = length is not None and job.held in ("needs", HELD_BY_BATCH)
    return later(now, length) if waits and length is not None else None
