"""Fires of schedules: due ones, manual triggers, backfills, and moves after a change of the zone database."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.jobs.endings import close
from horae.actions.jobs.masking import declared_names
from horae.actions.jobs.requests import stored_retry
from horae.actions.jobs.rules import is_ruled
from horae.actions.schedules.entries import entry_for
from horae.actions.schedules.schedules import iterate, lock_schedule, with_next_fire, write_version
from horae.core.cluster.numbers import job_id
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import job_budget
from horae.core.jobs.job import SYSTEM, Job, NewJob, Outcome, Settlement, band_of, make_new_job, settlement
from horae.core.jobs.payloads import encode
from horae.core.jobs.retry import LONGEST, Retry
from horae.core.outgoing.webhooks import refuse_credentials
from horae.core.scheduled_tasks.rules import apply_shortest_interval
from horae.core.schedules.decisions import admits, decide, drop_recorded
from horae.core.schedules.rules import Rule
from horae.core.schedules.schedule import Fire, Firing, Schedule, Unfinished
from horae.core.time.instants import MICROSECOND, aware, earlier, iso
from horae.errors import HoraeError, InvalidInput, StoreError
from horae.ports.schedules import Decide, FindRecorded, Occurrence, ScheduleFilter
from horae.ports.store import Tx
from horae.ports.world import World

log = logging.getLogger("horae.schedules")
MAX_BACKFILL = 10_000
MAX_SEARCHED = 100_000  # fires of a range that a backfill compares with the records, while the schedule is locked
UNREADABLE_WAIT = timedelta(minutes=1)
FIRE_BATCH = 500
# A running job that showed no progress for too long is closed for good; its checkpoint stays on record. Its worker may
# still renew the lease, so the ending does not depend on the lease having run out.
STALE = Outcome("lost", error="stale: no progress for longer than its stale_timeout", final=True)


@dataclass(frozen=True, slots=True)
class Triggered:
    """The result of a manual trigger: a job, or a recorded refusal."""

    schedule: Schedule
    fire: Fire
    job_id: str | None

    @property
    def ran(self) -> bool:
        return self.job_id is not None


@dataclass(frozen=True, slots=True)
class Backfill:
    """The fires of a range for which a backfill makes jobs (or, in a dry run, would)."""

    fires: tuple[datetime, ...]
    present: int
    job_ids: tuple[str, ...] = ()


def fire_due(world: World, limit: int = FIRE_BATCH) -> list[tuple[Firing, list[str]]]:
    """Fire due schedules: jobs, records and next fires in one transaction for the batch."""
    now = world.clock.now()

    def decide_all(
        due: list[Schedule],
        unfinished: dict[int, Unfinished],
        find_recorded: FindRecorded,
    ) -> list[tuple[Firing, list[NewJob]]]:
        read_at = world.clock.now()
        decided = [_decide(world, each, now, unfinished.get(each.number, Unfinished()).at(read_at)) for each in due]
        fires = [(firing.schedule.number, fire.fire_at) for firing, _ in decided for fire in firing.fires]
        recorded = find_recorded(fires)
        return [_without(firing, jobs, recorded) for firing, jobs in decided] if recorded else decided

    made = _fire(world, decide_all, now, limit)
    queues = {firing.schedule.queue for firing, numbers in made if numbers}
    world.route().store.wake(queues)
    return [(firing, [job_id(number) for number in numbers]) for firing, numbers in made]


def batches_at_once(world: World) -> int:
    """Return how many batches of a burst one process had better fire at the same time."""
    return world.route().store.fires_beside


def _decide(world: World, schedule: Schedule, now: datetime, unfinished: Unfinished) -> tuple[Firing, list[NewJob]]:
    """Decide the fires of one schedule; one that cannot be read (its zone is unknown here) does not stop the others.

    Its fire stays due and is tried again: by a process that can read it, or once it has been corrected.
    """
    try:
        here = apply_shortest_interval(schedule, world.shortest_interval)
        here = here if here.tzdata == world.tzdata else replace(here, tzdata=world.tzdata)
        firing = decide(here, now, unfinished, world.dice.roll())
        ran = [fire for fire in firing.fires if fire.verdict == "ran"]
        return firing, [_job(world, schedule, fire, alone=len(ran) > 1) for fire in ran]
    except HoraeError as problem:
        log.error("schedule %s cannot fire and is tried again in %s: %s", schedule.key, UNREADABLE_WAIT, problem,
                  extra={"schedule": schedule.key})  # fmt: skip
        return Firing(schedule, (), schedule.next_fire_at, now + UNREADABLE_WAIT, schedule.fire_count), []


def _fire(world: World, decide_all: Decide, now: datetime, limit: int) -> list[tuple[Firing, list[int]]]:
    """Fire, and end the silent jobs that this takes: those that a rule concerns first, in a transaction with the rule.

    A rule that fails must not keep schedules from firing: then the job is ended without it.
    """
    unruled: set[int] = set()

    def end_silent(job: Job) -> Settlement:
        if world.rules and job.number not in unruled and is_ruled(world, job):
            raise _EndFirst(job)
        return replace(settlement(job, STALE, now=now, roll=0.0), expired_before=None)

    while True:
        try:
            return world.route().store.fire(decide_all, end_silent, now=now, limit=limit)
        except _EndFirst as found:
            unruled.add(found.job.number)  # asked once; whatever becomes of it, the next round does not ask again
            try:
                close(world, found.job, STALE)
            except Exception as problem:
                log.exception("%s is ended without its rules: %s", found.job.id, problem)


class _EndFirst(Exception):
    """Raised to roll back a batch of fires: a silent job has to be ended with its rules before."""

    def __init__(self, job: Job) -> None:
        self.job = job


def _without(firing: Firing, jobs: list[NewJob], recorded: set[Occurrence]) -> tuple[Firing, list[NewJob]]:
    """Drop the fires that are on record already, and their jobs."""
    number = firing.schedule.number
    instants = {fire.fire_at for fire in firing.fires if (number, fire.fire_at) in recorded}
    return drop_recorded(firing, instants), [job for job in jobs if job.fire_at not in instants]


def trigger(
    world: World,
    key: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> Triggered:
    """Run a schedule now, whether enabled or not; obeys overlap, leaves the next fire alone, is not retried."""
    now = world.clock.now()

    def write(tx: Tx) -> Triggered:
        schedule = lock_schedule(tx, key, owner)
        busy = not admits(schedule, tx.schedules.unfinished(schedule.number).at(world.clock.now()))
        fire = Fire(now, "skipped", "manual", reason="running") if busy else Fire(now, "ran", "manual", due_at=now)
        number = None
        if not busy:
            payload = {**schedule.payload, **(parameters or {})}
            refuse_credentials(schedule.handler, parameters)
            once = replace(schedule, payload=payload, retry=Retry.none())
            number = tx.jobs.insert([_job(world, once, fire)], now)[0].number
        tx.schedules.record(schedule.number, fire, number, now)
        hidden = declared_names(tx, schedule.handler)
        tx.audit.append(
            entry_for(now, "trigger", schedule, actor, reason, before={}, hidden=hidden, ran=not busy)
        )  # fmt: skip
        return Triggered(schedule, fire, None if number is None else job_id(number))

    triggered = world.route(owner=owner, key=key).store.transact(write)
    world.route(owner=owner, key=key).store.wake([triggered.schedule.queue])
    return triggered


def backfill(
    world: World,
    key: str,
    start: datetime,
    end: datetime,
    *,
    dry_run: bool = True,
    spread: timedelta = timedelta(0),
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> Backfill:
    """Run the fires of a past range that never became a job; a *dry_run* only counts them.

    Fires that are still to come, or still to be decided on, are left to the schedule.
    """
    start, end = aware(start, "start"), aware(end, "end")
    if end < start:
        raise InvalidInput("end_before_start", end=iso(end), start=iso(start))
    if not timedelta(0) <= spread <= LONGEST:
        raise InvalidInput("spread_outside", spread=spread.total_seconds(), most_days=LONGEST.days)
    now = world.clock.now()

    def work(tx: Tx) -> Backfill:
        schedule = lock_schedule(tx, key, owner)
        begin, until = _past_part(schedule, start, end, now)
        rule = _rule_to_make_up(schedule, begin, until)
        present = tx.schedules.recorded(schedule.number, begin, until)
        missing = _missing(rule, begin, until, present)
        if dry_run or not missing:
            return Backfill(tuple(missing), len(present))
        step = spread / len(missing)
        fires = [Fire(at, "ran", "backfill", due_at=now + step * n) for n, at in enumerate(missing)]
        placed = tx.jobs.insert([_job(world, schedule, fire, alone=True) for fire in fires], now)
        for fire, where in zip(fires, placed, strict=True):
            tx.schedules.record(schedule.number, fire, where.number, now)
        hidden = declared_names(tx, schedule.handler)
        tx.audit.append(
            entry_for(now, "backfill", schedule, actor, reason, before={}, hidden=hidden, fires=len(fires))
        )  # fmt: skip
        return Backfill(tuple(missing), len(present), tuple(job_id(where.number) for where in placed))

    done = world.route(owner=owner, key=key).store.transact(work)
    if done.job_ids:
        world.route(owner=owner, key=key).store.wake(["*"])
    return done


def _past_part(schedule: Schedule, start: datetime, end: datetime, now: datetime) -> tuple[datetime, datetime]:
    """Return the part of a range whose fires the schedule has already decided on."""
    begin = start if schedule.starts_at is None else max(start, schedule.starts_at)
    bounds = [moment for moment in (end, now, schedule.ends_at) if moment is not None]
    if schedule.next_fire_at is not None:
        bounds.append(schedule.next_fire_at - MICROSECOND)
    return begin, min(bounds)


def _rule_to_make_up(schedule: Schedule, begin: datetime, until: datetime) -> Rule:
    """Return the rule of a schedule; refuse one without times, and a range with too many fires."""
    rule = schedule.rule
    if rule is None or schedule.rests:
        raise InvalidInput("no_times_to_backfill", key=schedule.key)
    count = rule.count(earlier(begin, MICROSECOND), until)
    if count > MAX_SEARCHED:
        raise InvalidInput("backfill_too_wide", begin=iso(begin), until=iso(until), count=count, most=MAX_SEARCHED)
    return rule


def _missing(rule: Rule, begin: datetime, until: datetime, present: set[datetime]) -> list[datetime]:
    missing: list[datetime] = []
    for fire_at in rule.between(earlier(begin, MICROSECOND), until):
        if fire_at not in present:
            missing.append(fire_at)
        if len(missing) > MAX_BACKFILL:
            raise InvalidInput("backfill_too_many", begin=iso(begin), most=MAX_BACKFILL)
    return missing


def recompute_zones(world: World) -> list[tuple[Schedule, datetime | None]]:
    """Compute future fires anew after an update of the zone database; return the schedules whose fire moved."""
    moved: list[tuple[Schedule, datetime | None]] = []
    for schedule in iterate(world, ScheduleFilter(kind="cron", not_tzdata=world.tzdata)):
        try:
            moved += _restamp(world, schedule)
        except StoreError:
            raise
        except HoraeError as problem:  # its zone is gone: the stored fire stays, and firing it logs an error
            log.error("the next fire of %s cannot be recomputed: %s", schedule.key, problem)
    return moved


def _restamp(world: World, schedule: Schedule) -> list[tuple[Schedule, datetime | None]]:
    def write(tx: Tx) -> list[tuple[Schedule, datetime | None]]:
        before = lock_schedule(tx, schedule.key, schedule.owner)
        now = world.clock.now()
        stamped = replace(before, tzdata=world.tzdata)
        if before.next_fire_at is None or before.next_fire_at <= now:
            tx.schedules.put(stamped, expected_version=before.version)  # what is due already is fired as planned
            return []
        after = with_next_fire(world, stamped, now)
        if after.next_fire_at == before.next_fire_at:
            tx.schedules.put(stamped, expected_version=before.version)
            return []
        why = f"zone database {before.tzdata or 'unknown'} → {world.tzdata}"
        return [(write_version(world, tx, before, stamped, "move", "system/zones", why), before.next_fire_at)]

    return world.route(owner=schedule.owner, key=schedule.key).store.transact(write)


def _trace(world: World) -> str:
    """Return the trace that joins the attempts at a job with what they call (S1-13): the caller's, or a new one."""
    here = None if world.tracing is None else world.tracing.current()
    return here or world.dice.name(32)


def _job(world: World, schedule: Schedule, fire: Fire, *, alone: bool = False) -> NewJob:
    """Return the job of a fire; several made at once must not overlap either, where the schedule forbids it."""
    serial = schedule.overlap == "queue_one" or (alone and schedule.overlap != "allow")
    drawn_on = job_budget(schedule.budget, schedule.cost)
    return make_new_job(
        handler=schedule.handler,
        payload=encode(schedule.payload, max_bytes=world.max_payload_bytes),
        queue=schedule.queue,
        band=band_of(schedule.priority),
        run_at=fire.due_at or fire.fire_at,
        planned_at=fire.fire_at,
        owner=schedule.owner,
        max_attempts=schedule.retry.attempts,
        retry=stored_retry(schedule.retry),
        timeout=schedule.timeout,
        concurrency_key=f"schedule:{schedule.number}" if serial else None,
        group=schedule.group,
        schedule_id=schedule.number,
        fire_at=fire.fire_at,
        has_dependents=fire.kind != "schedule",
        trace_id=_trace(world),
        budget=None if drawn_on is None else encode(drawn_on.as_json()),
    )
