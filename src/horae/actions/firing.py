"""Firing schedules: on time, by hand, after the fact, and after a change of the zone database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.schedules import entry_for, find, locked, timed, written
from horae.core.fires import Fire, Firing, Schedule, Unfinished, decide
from horae.core.instants import aware
from horae.core.jobs import SYSTEM, NewJob, band_of
from horae.core.payloads import encode
from horae.core.retry import Retry
from horae.errors import InvalidInput
from horae.ports import Tx, World

MAX_BACKFILL = 10_000
FIRE_BATCH = 500


@dataclass(frozen=True, slots=True)
class Triggered:
    """What a manual trigger led to: a job, or a refusal on record."""

    schedule: Schedule
    fire: Fire
    job_id: str | None

    @property
    def ran(self) -> bool:
        return self.job_id is not None


@dataclass(frozen=True, slots=True)
class Backfill:
    """Which fires of a range a backfill makes up for (or, in a dry run, would)."""

    fires: tuple[datetime, ...]
    present: int
    job_ids: tuple[str, ...] = ()


def fire_due(world: World, limit: int = FIRE_BATCH) -> list[tuple[Firing, list[str]]]:
    """Fire what has come due: job, record and next instant in one transaction for the batch."""
    now = world.clock.now()

    def decided(due: list[Schedule], unfinished: dict[int, Unfinished]) -> list[tuple[Firing, list[NewJob]]]:
        firings = [decide(each, now, unfinished.get(each.number, Unfinished()), world.dice.roll()) for each in due]
        return [(firing, [_job(world, firing.schedule, fire) for fire in _ran(firing)]) for firing in firings]

    made = world.store.fire(decided, now=now, limit=limit)
    queues = {firing.schedule.queue for firing, numbers in made if numbers}
    world.store.wake(queues)
    return [(firing, [f"job_{number}" for number in numbers]) for firing, numbers in made]


def _ran(firing: Firing) -> list[Fire]:
    return [fire for fire in firing.fires if fire.verdict == "ran"]


def trigger(
    world: World,
    key: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> Triggered:
    """Run it now, whether enabled or not; obeys overlap, leaves the rhythm alone, is not retried by itself."""
    now = world.clock.now()

    def write(tx: Tx) -> Triggered:
        schedule = locked(tx, key, owner)
        unfinished = tx.schedules.unfinished(schedule.number)
        busy = schedule.overlap != "allow" and (unfinished.busy or unfinished.retrying)
        fire = Fire(now, "skipped", "manual", reason="running") if busy else Fire(now, "ran", "manual", due_at=now)
        number = None
        if not busy:
            payload = {**schedule.payload, **(parameters or {})}
            once = replace(schedule, payload=payload, retry=Retry.none())
            number = tx.jobs.insert([_job(world, once, fire)], now)[0].number
        tx.schedules.record(schedule.number, fire, number, now)
        tx.audit.append(entry_for(now, "trigger", schedule, actor, reason, before={}, ran=not busy))
        return Triggered(schedule, fire, None if number is None else f"job_{number}")

    triggered = world.store.transact(write)
    world.store.wake([triggered.schedule.queue])
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
    """Make up for the fires of a range that never became a job; first without doing it, to see how many."""
    start, end = aware(start, "start"), aware(end, "end")

    def work(tx: Tx) -> Backfill:
        schedule = locked(tx, key, owner)
        rule = schedule.rule
        if rule is None:
            raise InvalidInput(f"Schedule {key} follows others and has no times of its own to make up for.")
        present = tx.schedules.recorded(schedule.number, start, end)
        missing: list[datetime] = []
        for fire_at in rule.between(start - timedelta(microseconds=1), end):
            if fire_at not in present:
                missing.append(fire_at)
            if len(missing) > MAX_BACKFILL:
                raise InvalidInput(f"The range holds more than {MAX_BACKFILL:,} fires; choose a shorter one.")
        if dry_run or not missing:
            return Backfill(tuple(missing), len(present))
        now = world.clock.now()
        step = spread / len(missing)
        fires = [Fire(at, "ran", "backfill", due_at=now + step * n) for n, at in enumerate(missing)]
        placed = tx.jobs.insert([_job(world, schedule, fire) for fire in fires], now)
        for fire, where in zip(fires, placed, strict=True):
            tx.schedules.record(schedule.number, fire, where.number, now)
        tx.audit.append(entry_for(now, "backfill", schedule, actor, reason, before={}, fires=len(fires)))
        return Backfill(tuple(missing), len(present), tuple(f"job_{where.number}" for where in placed))

    return world.store.transact(work)


def recompute_zones(world: World) -> list[tuple[Schedule, datetime | None]]:
    """After an update of the zone database: compute future fires anew; answers with those that moved."""
    moved: list[tuple[Schedule, datetime | None]] = []
    after: str | None = None
    while page := find(world, limit=500, after=after):
        for schedule in page:
            if schedule.kind == "cron" and schedule.tzdata != world.tzdata:
                moved += _restamped(world, schedule)
        after = page[-1].key
    return moved


def _restamped(world: World, schedule: Schedule) -> list[tuple[Schedule, datetime | None]]:
    def write(tx: Tx) -> list[tuple[Schedule, datetime | None]]:
        before = locked(tx, schedule.key, schedule.owner)
        now = world.clock.now()
        stamped = replace(before, tzdata=world.tzdata)
        if before.next_fire_at is None or before.next_fire_at <= now:
            tx.schedules.put(stamped, expected_version=before.version)  # what is due already is fired as it was told
            return []
        after = timed(world, stamped, now)
        if after.next_fire_at == before.next_fire_at:
            tx.schedules.put(stamped, expected_version=before.version)
            return []
        why = f"zone database {before.tzdata or 'unknown'} → {world.tzdata}"
        return [(written(world, tx, before, stamped, "move", "system/zones", why), before.next_fire_at)]

    return world.store.transact(write)


def _job(world: World, schedule: Schedule, fire: Fire) -> NewJob:
    """The job that a fire becomes."""
    alone = schedule.overlap == "queue_one"
    return NewJob(
        handler=schedule.handler,
        payload=encode(schedule.payload, max_bytes=world.max_payload_bytes),
        queue=schedule.queue,
        band=band_of(schedule.priority),
        run_at=fire.due_at or fire.fire_at,
        planned_at=fire.fire_at,
        owner=schedule.owner,
        max_attempts=schedule.retry.attempts,
        retry=encode(schedule.retry.as_json()),
        timeout=schedule.timeout,
        concurrency_key=f"schedule:{schedule.number}" if alone else None,
        group=schedule.group,
        schedule_id=schedule.number,
        fire_at=fire.fire_at,
        linked=fire.kind != "schedule",
    )
