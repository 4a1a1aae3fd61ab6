"""What is expected of single jobs: judge it at the deadline, move it with the job, tell it where a job is explained.

The row is written with the job, and only where something is expected of it; see :mod:`horae.core.jobs.expectations`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from horae.actions.jobs.quiet_owners import quiet_until
from horae.actions.jobs.quiet_queues import as_of
from horae.core.audit.entries import Entry
from horae.core.jobs.expectations import check_of, deadline_of, judge_job, moved, subject_of
from horae.core.jobs.job import SYSTEM, Job, job_number
from horae.core.jobs.machinery import EXPECT
from horae.core.jobs.reasons import Reason
from horae.core.schedules.expect import read_expect
from horae.core.schedules.expectations import MissedRun
from horae.core.time.instants import iso
from horae.errors import Fact
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.expectations")
ACTOR = "system/expectations"
AT_ONCE = 200  # records that are judged in one transaction


def check_job_expectation(world: World, check: Job) -> datetime | None:
    """Judge what is expected of a job; return when to come back, None where nothing is any more.

    A check that is no longer the one that the row names does nothing: another has taken its place.
    """
    number = job_number(str(check.payload["job"]))

    def write(tx: Tx) -> datetime | None:
        row = tx.expectations.of_job(subject_of(number), lock=True)
        return None if row is None or row.check_job != check.number else _judge(tx, row, number, world.clock.now())

    return world.route(owner=check.owner, id=str(check.payload["job"])).store.transact(write)


def _judge(tx: Tx, row: MissedRun, number: int, now: datetime) -> datetime | None:
    job = tx.jobs.get(number)
    found = judge_job(row, job, now, held_until=_held_until(tx, job, now))
    if found.row is None:
        tx.expectations.remove(row.number)
    elif found.row != row:
        tx.expectations.put(found.row)
        _tell(tx, row, found.row, now)
    return found.again_at


def judge_open(world: World) -> None:
    """Judge what is missing of single jobs now, before it leaves the database of their runs with its shard."""

    def write(tx: Tx, before: int | None) -> int | None:
        rows = tx.expectations.find(state="open", limit=AT_ONCE, before=before)
        for each in rows:
            row = None if each.job_number is None else tx.expectations.of_job(each.subject, lock=True)
            if row is not None and row.job_number is not None:
                _judge(tx, row, row.job_number, world.clock.now())
        return rows[-1].number if len(rows) == AT_ONCE else None

    further = world.route().store.transact(lambda tx: write(tx, None))
    while further is not None:
        further = world.route().store.transact(partial(write, before=further))


def _held_until(tx: Tx, job: Job | None, now: datetime) -> datetime | None:
    """Return until when nothing of its queue or its owner may run; None where it may."""
    if job is None or job.state != "queued":
        return None
    queue = tx.queues.get(job.queue)
    queue = None if queue is None else as_of(queue, now)
    paused = None if queue is None or queue.paused_at is None else queue.paused_until or now
    quiet = None if job.owner == SYSTEM else quiet_until(tx.owner_hours.get(job.owner), now)
    return max((each for each in (paused, quiet) if each is not None), default=None)


def _tell(tx: Tx, before: MissedRun, after: MissedRun, now: datetime) -> None:
    if after.state == before.state or after.state == "dropped":
        return
    job, facts = after.job or "", {"expect": after.expect}
    if after.state == "open":
        log.warning(
            "%s should have succeeded by %s (expected %s) and has not", job, iso(after.due_at), after.expect,
            extra={"job": job, "due_at": iso(after.due_at)},
        )  # fmt: skip
        _note(tx, "miss", job, after.owner, now, **facts, due_at=iso(after.due_at))
        return
    ended = iso(after.ended_at or now)
    log.info("%s has succeeded after all at %s", job, ended, extra={"job": job})
    _note(tx, "recover", job, after.owner, now, **facts, due_at=iso(after.due_at), succeeded_at=ended)


def _note(tx: Tx, verb: str, job: str, owner: str, now: datetime, **after: Any) -> None:
    tx.audit.append(Entry(now, ACTOR, verb, "job", job, owner=owner, before={}, after=after))


# -- with an act by hand -----------------------------------------------------------------------------------------------


def move_expectation(tx: Tx, job: Job, run_at: datetime, now: datetime) -> None:
    """Count from the new time of a job that was moved by hand; what was missing until now is dropped.

    A deadline that is the same as before, such as an instant, stands, and so does its record.
    """
    row = tx.expectations.of_job(subject_of(job.number), lock=True)
    at = None if row is None else deadline_of(row.expect, run_at)
    if row is None or at is None or at == row.due_at:
        return
    check_job = _plan(tx, row, at, now)
    if row.state == "waiting":
        tx.expectations.put(replace(moved(row, run_at, at), check_job=check_job))
        return
    tx.expectations.put(replace(row, state="dropped", ended_at=now, reason="rescheduled", check_job=None))
    fresh = replace(
        moved(row, run_at, at), check_job=check_job, state="waiting", count=0, found_at=now, told=0, number=0
    )
    tx.expectations.add(fresh)


def hand_over(tx: Tx, job: Job) -> str | None:
    """Return what is expected of a job, for its copy; None where that is nothing, or an instant, which has passed."""
    row = tx.expectations.of_job(subject_of(job.number))
    return None if row is None or read_expect(row.expect).instant is not None else row.expect


def drop_expectation(tx: Tx, job: Job, reason: str, now: datetime) -> None:
    """Expect nothing of a job any more; an open record is closed, one that waits goes."""
    row = tx.expectations.of_job(subject_of(job.number), lock=True)
    if row is None:
        return
    if row.state == "waiting":
        tx.expectations.remove(row.number)
    else:
        tx.expectations.put(replace(row, state="dropped", ended_at=now, reason=reason))


def _plan(tx: Tx, row: MissedRun, at: datetime, now: datetime) -> int:
    """Move the check of a job, or make one where none waits; return its number."""
    found = None if row.check_job is None else tx.jobs.lock(row.check_job)
    waits = found is not None and found.state == "queued" and found.handler == EXPECT
    if found is not None and waits and tx.jobs.requeue(found, run_at=at, attempt=0, band=None, now=now):
        return found.number
    assert row.job_number is not None
    return tx.jobs.insert([check_of(row.job_number, row.owner, at)], now)[0].number


# -- look and repair ---------------------------------------------------------------------------------------------------


def why_expected(tx: Tx, job: Job, now: datetime) -> tuple[Reason, ...]:
    """Say what is expected of a job, and whether it is missing; nothing where nothing is expected of it."""
    row = tx.expectations.of_job(subject_of(job.number))
    if row is None or job.state == "cancelled":
        return ()
    facts: dict[str, Fact] = {"expect": row.expect, "due_at": iso(row.due_at)}
    if job.state == "succeeded":
        is_late = row.state == "open" or (job.finished_at or now) > row.due_at
        met = Reason("expected", "expected_met", facts)
        return (Reason("expected", "expected_came_late", facts) if is_late else met,)
    is_missing = now >= row.due_at
    return (Reason("missed", "expected_missed", facts) if is_missing else Reason("expected", "expected_by", facts),)


def repair_job_check(world: World, found: MissedRun) -> bool:
    """Plan the next look at what is expected of a job whose check is gone."""

    def write(tx: Tx) -> bool:
        row = tx.expectations.of_job(found.subject, lock=True)
        if row is None or row.check_job != found.check_job:
            return False
        now = world.clock.now()
        tx.expectations.put(replace(row, check_job=_plan(tx, row, max(row.due_at, now), now)))
        return True

    return world.route(owner=found.owner, id=found.job).store.transact(write)
