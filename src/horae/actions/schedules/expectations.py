"""Expectations of schedules: plan the next check, judge what has passed, keep one record of what is missing.

The check is a job of Horae's own, put off from one deadline to the next, so that any worker or server finds a missing
run, also where no worker lives. It judges behind the lock of the schedule, and what it has judged is stored with the
records that follow: a process that dies, comes late or comes twice makes no second record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.actions.jobs.expectations import check_job_expectation
from horae.actions.schedules.entries import object_id
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.jobs.expectations import PAUSED_LOOK, subject_of
from horae.core.jobs.job import Job, NewJob, job_number
from horae.core.jobs.machinery import EXPECT, MACHINERY, PERSISTENT
from horae.core.jobs.payloads import encode
from horae.core.scheduled_tasks.rules import apply_shortest_interval
from horae.core.schedules.expect import read_expect
from horae.core.schedules.expectations import (
    STATES,
    Judgement,
    MissedRun,
    Misses,
    begin,
    is_expected,
    judge,
    next_deadline,
)
from horae.core.schedules.schedule import Schedule, changed
from horae.core.time.instants import iso
from horae.errors import InvalidInput
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.expectations")
ACTOR = "system/expectations"


# -- with a change of the schedule -------------------------------------------------------------------------------------


def keep_expectation(
    world: World, tx: Tx, before: Schedule | None, after: Schedule, now: datetime, *, afresh: bool = False
) -> Schedule:
    """Return a schedule with what is expected of it from now on, its next check planned.

    What was expected before a pause, another rule or another expectation (*afresh*) is dropped, also where it is
    missing already.
    """
    if after.expect is None and (before is None or before.expect is None):
        return after
    if not is_expected(after):
        drop_open(tx, after, _why_not(after), now)
        return changed(after, expected_since=None, succeeded_at=None, missed_at=None)
    if before is None or afresh or not is_expected(before) or before.expect != after.expect:
        drop_open(tx, after, "changed", now)
        after = changed(after, expected_since=begin(after, now), succeeded_at=None, missed_at=None)
    return changed(after, check_job=_plan(tx, after, _next_check(world, after, now), now))


def drop_open(tx: Tx, schedule: Schedule, reason: str, now: datetime) -> None:
    """Close the record of what is missing of a schedule, because it is no longer expected."""
    found = None if schedule.missed_at is None else tx.expectations.open_of(_subject(schedule))
    if found is not None:
        tx.expectations.put(replace(found, state="dropped", ended_at=now, reason=reason))


def _why_not(schedule: Schedule) -> str:
    if schedule.expect is None:
        return "changed"
    if schedule.paused_at is not None:
        return "paused"
    return "inactive" if schedule.inactive is not None else "disabled"


def _next_check(world: World, schedule: Schedule, now: datetime) -> datetime | None:
    if schedule.succeeded_at is not None:
        return now
    here = apply_shortest_interval(schedule, world.shortest_interval)
    deadline = next_deadline(here, schedule.expected_since or now)
    return None if deadline is None else deadline.at


def _plan(tx: Tx, schedule: Schedule, at: datetime | None, now: datetime) -> int | None:
    """Move the job of the next check, or make one where there is none that waits; return its number."""
    if at is None:
        return schedule.check_job
    found = None if schedule.check_job is None else tx.jobs.lock(schedule.check_job)
    waits = found is not None and found.state == "queued" and found.handler == EXPECT
    if found is not None and waits and (found.run_at == at or _move(tx, found, at, now)):
        return found.number
    new = NewJob(
        handler=EXPECT,
        payload=encode({"schedule": schedule.key, "owner": schedule.owner}),
        queue=MACHINERY,
        band=0,
        run_at=at,
        planned_at=at,
        owner=schedule.owner,
        max_attempts=PERSISTENT.attempts,
        retry=encode(PERSISTENT.as_json()),
    )
    return tx.jobs.insert([new], now)[0].number


def _move(tx: Tx, job: Job, at: datetime, now: datetime) -> bool:
    return tx.jobs.requeue(job, run_at=at, attempt=0, band=None, now=now)


# -- check -------------------------------------------------------------------------------------------------------------


def check_expectation(world: World, job: Job) -> datetime | None:
    """Judge the deadlines of a schedule, or of a job, that have passed; return when to come back.

    None where nothing is expected any more. A job that is no longer the one that the schedule names does nothing:
    another has taken its place.
    """
    if "job" in job.payload:
        return check_job_expectation(world, job)
    key, owner = str(job.payload["schedule"]), str(job.payload["owner"])

    def write(tx: Tx) -> datetime | None:
        schedule = tx.schedules.get(key, owner, lock=True)
        if schedule is None or schedule.check_job != job.number:
            return None
        now = world.clock.now()
        held_until = _held_until(tx, schedule, now)
        if held_until is not None:
            return held_until
        judged = judge(apply_shortest_interval(schedule, world.shortest_interval), now)
        _record(tx, schedule, judged, now)
        tx.schedules.note_expectation(judged.schedule)
        return judged.again_at

    return world.route(owner=owner, key=key).store.transact(write)


def _held_until(tx: Tx, schedule: Schedule, now: datetime) -> datetime | None:
    """Return when to look again where its jobs cannot run, because their queue is paused; None where they can."""
    queue = tx.queues.get(schedule.queue)
    if queue is None or queue.paused_at is None or schedule.succeeded_at is not None or not is_expected(schedule):
        return None
    length = max(read_expect(schedule.expect or "").length or PAUSED_LOOK, PAUSED_LOOK)
    return max(queue.paused_until or now, now) + length


def _record(tx: Tx, before: Schedule, judged: Judgement, now: datetime) -> None:
    """Write what a check has found: a record for each run of misses in a row, and its end."""
    known = None if before.missed_at is None else tx.expectations.open_of(_subject(before))
    if judged.recovered_at is not None and (known is not None or judged.late is not None):
        _recover(tx, before, known, judged.late, judged.recovered_at, now)
        known = None
    if judged.open is None:
        return
    if known is not None:
        tx.expectations.put(_and_more(known, judged.open))
        return
    _add(tx, before, judged.open, now)
    first = judged.open.first
    log.warning(
        "%s should have succeeded by %s (expected %s) and has not", before.key, iso(first.at), before.expect,
        extra={"schedule": before.key, "due_at": iso(first.at)},
    )  # fmt: skip
    _note(tx, "miss", before, now, due_at=iso(first.at), expected_at=iso(first.since))


def _recover(
    tx: Tx, schedule: Schedule, known: MissedRun | None, late: Misses | None, at: datetime, now: datetime
) -> None:
    if known is not None:
        more = known if late is None else _and_more(known, late)
        tx.expectations.put(replace(more, state="recovered", ended_at=at))
    else:
        assert late is not None
        _add(tx, schedule, late, now, state="recovered", ended_at=at)
    log.info("%s has succeeded again at %s", schedule.key, iso(at), extra={"schedule": schedule.key})
    _note(tx, "recover", schedule, now, succeeded_at=iso(at))


def _add(tx: Tx, schedule: Schedule, misses: Misses, now: datetime, **state: Any) -> None:
    """Write a record; one of the same deadline, from before a pause or a clock that stepped back, is opened again."""
    deadline, subject = misses.first, _subject(schedule)
    known = tx.expectations.get(subject, deadline.at)
    if known is not None:
        fresh: dict[str, Any] = {"state": "open", "ended_at": None, "reason": None, **state}
        tx.expectations.put(replace(known, last_due_at=misses.last_at, count=misses.count, **fresh))
        return
    tx.expectations.add(
        MissedRun(
            subject=subject,
            schedule=schedule.key,
            owner=schedule.owner,
            handler=schedule.handler,
            queue=schedule.queue,
            expect=schedule.expect or "",
            expected_at=deadline.since,
            due_at=deadline.at,
            last_due_at=misses.last_at,
            count=misses.count,
            found_at=now,
            **state,
        )
    )


def _and_more(known: MissedRun, misses: Misses) -> MissedRun:
    return replace(known, count=known.count + misses.count, last_due_at=misses.last_at)


def _note(tx: Tx, verb: str, schedule: Schedule, now: datetime, **facts: Any) -> None:
    name = object_id(schedule.key, schedule.owner)
    after = {"expect": schedule.expect, **facts}
    tx.audit.append(Entry(now, ACTOR, verb, "schedule", name, owner=schedule.owner, before={}, after=after))


def _subject(schedule: Schedule) -> str:
    return f"schedule:{schedule.number}"


# -- look and repair ---------------------------------------------------------------------------------------------------


def find_missed(
    world: World,
    *,
    owner: str | None = None,
    state: str | None = None,
    schedule: str | None = None,
    job: str | None = None,
    queues: Collection[str] = (),
    limit: int = 100,
    before: int | None = None,
) -> list[MissedRun]:
    """Return records of expectations that were not met, the newest first; with *state* waiting those to come."""
    page_size(limit)
    subject = None if job is None else subject_of(job_number(job))
    if state is not None and state not in STATES:
        raise InvalidInput("choice_unknown", name="state", value=str(state), choices=list(STATES))
    return world.route(owner=owner).store.read(
        lambda tx: tx.expectations.find(
            owner=owner, state=state, schedule=schedule, job=subject, queues=queues, limit=limit, before=before
        )
    )


def count_missing(world: World, *, owner: str | None = None) -> int:
    """Return how many expectations are not met now."""
    return world.route(owner=owner).store.read(lambda tx: tx.expectations.count_open(owner))


def repair_check(world: World, found: Schedule) -> bool:
    """Plan the next check of a schedule whose job is gone."""

    def write(tx: Tx) -> bool:
        now = world.clock.now()
        before = tx.schedules.get(found.key, found.owner, lock=True)
        if before is None or before.check_job != found.check_job or not lacks_check(before):
            return False
        after = keep_expectation(world, tx, before, changed(before, expected_since=before.expected_since or now), now)
        tx.schedules.note_expectation(after)
        return after.check_job != before.check_job

    return world.route(owner=found.owner, key=found.key).store.transact(write)


def lacks_check(schedule: Schedule) -> bool:
    """Return whether a schedule without a job of the next check should have one; its rule may have ended."""
    try:
        since = schedule.expected_since or schedule.created_at
        return since is not None and next_deadline(schedule, since) is not None
    except InvalidInput:  # its rule cannot be read here, which the doctor reports
        return False
