"""Declared schedules: bring the store in line with code and file, and report their status.

Several applications may share a store. ``sources["declared"]`` of a schedule says which of them declares or seeded it;
an application retires only its own.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from itertools import chain, repeat
from typing import TypeVar

from horae.actions.consistency import one_moment
from horae.actions.jobs.definitions import store_definitions
from horae.actions.jobs.running_limits import declare_limits
from horae.actions.schedules.answering import Answering, find_answering
from horae.actions.schedules.entries import CHANGEABLE
from horae.actions.schedules.schedules import add_schedules, check_schedule, iterate, lock_schedule, write_version
from horae.actions.schedules.toggles import DECLARED_BY as BY
from horae.actions.schedules.toggles import forget_toggles
from horae.core.cursors import MAX_PAGE
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.running_limits import LimitSource
from horae.core.schedules.job_status import WHEN_ASKED, JobStatus, duration, result_of, status_of
from horae.core.schedules.schedule import Schedule, changed, first_fire
from horae.errors import Conflict, HoraeError, StoreError, StoreUnavailable
from horae.ports.definitions import StoredDefinition
from horae.ports.schedules import ScheduleFilter, Tally
from horae.ports.store import Tx
from horae.ports.world import World

T = TypeVar("T")
log = logging.getLogger("horae.schedules")
GONE = "no longer declared in code"
OFF_IN_FILE = "switched off: [jobs] enabled = false in jobs.conf"
OFF_IN_CODE = "switched off: Horae(enabled=False) in code"
SWITCHED_OFF = (OFF_IN_FILE, OFF_IN_CODE)
TRIES = 5
BATCH = 500  # schedules written in one transaction


@dataclass(frozen=True, slots=True)
class Plan:
    """The schedules, limits and definitions that an application declares, and whether anything fires."""

    app: str
    schedules: tuple[Schedule, ...] = ()
    seeds: tuple[Schedule, ...] = ()
    off: str | None = None  # why nothing fires, where the global switch is off
    handlers: frozenset[str] = frozenset()
    loads_persisted: bool = False
    limits: Mapping[str, LimitSource] = field(default_factory=dict)  # of what runs at once

    @property
    def enabled(self) -> bool:
        return self.off is None

    definitions: tuple[StoredDefinition, ...] = ()


def bring_in_line(world: World, plan: Plan, *, starts: bool = False, started: set[int] | None = None) -> list[Schedule]:
    """Write the plan to the store; values that were changed through a verb stay.

    When a worker *starts*, temporary toggles end.

    A schedule that cannot be written is logged, and the others are written; an error of the store is raised. In a
    cluster all databases that answer are brought in line before one that does not is an error: repeat it then, with
    the same *started*, in which the databases are noted where toggles have ended, so that later ones last.
    """
    begun, here = world.clock.now(), find_answering(world)
    store_definitions(world, plan.definitions, app=plan.app, actor="system/start")
    ended = set[int]() if started is None else started
    for number, shard in here.worlds.items() if starts else ():
        if number not in ended:  # first: a toggle of a schedule that this start declares must last
            for key in forget_toggles(shard, plan.app):
                log.info("the temporary switch of schedule %s ends, because its application was started again", key)
            ended.add(number)
    stored = {each.key: each for each in here.iterate(ScheduleFilter(owner=SYSTEM))}
    seeds, schedules = here.placed(world, plan.seeds), here.placed(world, plan.schedules)
    written_down = declare(world, seeds, seed=True, app=plan.app, stored=stored)
    written_down += declare(world, schedules, app=plan.app, inactive=plan.off, stored=stored)
    for key in retire(world, stored.values(), {schedule.key for schedule in plan.schedules}, app=plan.app):
        log.warning("schedule %s is no longer declared in code; it is kept and does not fire", key)
    for name in declare_limits(world, plan.app, plan.limits):
        log.info("the limit %s follows what code and file say now", name)
    _switch(world, stored.values(), plan)
    if plan.loads_persisted:
        load_persisted(world, plan.handlers, app=plan.app, known_here=here)
    if any(schedule.updated_at is not None and schedule.updated_at >= begun for schedule in written_down):
        world.route().store.wake(["*"])  # only after a change, so that a start does not wake every worker
    if here.away:
        raise StoreUnavailable("schedules_partly_in_line", databases=here.away)
    return written_down


def declare(
    world: World,
    declared: Sequence[Schedule],
    *,
    seed: bool = False,
    app: str = "",
    inactive: str | None = None,
    stored: dict[str, Schedule] | None = None,
) -> list[Schedule]:
    """Write declared schedules to the store; values that were changed through a verb stay.

    With *seed*, only insert what is not there yet (document 004's defaults). *stored* is what the caller has read
    already, by key; it is brought up to date. What looks changed is read again, locked, before it is written.
    """
    stored = find_stored(world, {schedule.key for schedule in declared}) if stored is None else stored
    ours = [
        changed(schedule, sources={**schedule.sources, BY: app}, inactive=inactive)
        for schedule in _leaders_first(declared)
    ]
    differing = [each for each in ours if _merge(stored.get(each.key), each, seed) is not stored.get(each.key)]
    for batch in _batches(world, differing):
        stored.update({schedule.key: schedule for schedule in _declare_batch(world, batch, seed, stored.keys())})
    return [stored[each.key] for each in ours if each.key in stored]


def retire(world: World, stored: Iterable[Schedule], keys: Collection[str], *, app: str = "") -> list[str]:
    """Make the schedules that this application no longer declares inactive, with a reason; return their keys."""
    ours = (each for each in stored if each.declared and each.sources.get(BY, "") == app)
    gone = [each for each in ours if each.key not in keys and each.inactive != GONE]
    for schedule in gone:
        set_inactive(world, schedule, GONE)
    return [schedule.key for schedule in gone]


def load_persisted(
    world: World, known: Collection[str], *, app: str, known_here: Answering | None = None
) -> list[Schedule]:
    """Return every enabled schedule whose handler is known; make the others inactive (document 004).

    Schedules that another application declares or seeded are left alone.
    """
    loaded = []
    here = find_answering(world) if known_here is None else known_here
    for schedule in here.iterate(ScheduleFilter(owner=SYSTEM)):
        if schedule.sources.get(BY, app) != app:
            continue
        if schedule.handler not in known:
            if schedule.inactive is None:
                log.warning("schedule %s names the unknown handler %s; it is kept and does not fire",
                            schedule.key, schedule.handler)  # fmt: skip
                set_inactive(world, schedule, _unknown_handler(schedule))
            continue
        if schedule.inactive == _unknown_handler(schedule):
            schedule = set_inactive(world, schedule, None)
        if schedule.is_active:
            loaded.append(schedule)
    return loaded


def set_inactive(world: World, schedule: Schedule, reason: str | None) -> Schedule:
    """Keep a schedule from firing, for a reason; None lets it fire again."""
    if schedule.inactive == reason:
        return schedule

    def write(tx: Tx) -> Schedule:
        before = lock_schedule(tx, schedule.key, schedule.owner)
        if before.inactive == reason:
            return before
        verb = "activate" if reason is None else "deactivate"
        return write_version(world, tx, before, replace(before, inactive=reason), verb, "system/start", reason or "")

    return _retry_conflicts(lambda: world.route(owner=schedule.owner, key=schedule.key).store.transact(write))


def find_stored(world: World, keys: Collection[str]) -> dict[str, Schedule]:
    """Return the stored schedules of these keys."""
    found: dict[str, Schedule] = {}
    for shard in world.shards() if keys else ():
        found |= shard.route().store.read(lambda tx: tx.schedules.by_keys(keys, SYSTEM))
    return found


@one_moment
def local(world: World, plan: Plan) -> dict[str, Schedule]:
    """Return the stored schedules that each node of the application runs for itself, declared or made by a verb."""
    made = iterate(world, ScheduleFilter(owner=SYSTEM, mode="ALL_NODES"))
    known = (each for each in made if each.handler in plan.handlers)
    ours = {each.key: each for each in known if each.sources.get(BY, plan.app) == plan.app}
    return ours | find_stored(world, [schedule.key for schedule in plan.schedules if schedule.mode == "ALL_NODES"])


def snapshot(world: World, plan: Plan) -> list[JobStatus]:
    """Return the status of all jobs of an application, over the whole cluster (S3-19).

    Its schedules come first, declared ones as code lists them and then those that were seeded or stored for its
    handlers, then the handlers that run only when they are asked for. What is not stored yet has no history.
    """
    now = world.clock.now()

    def read(tx: Tx) -> list[JobStatus]:
        known = {each.key: each for each in _pages(tx, ScheduleFilter(owner=SYSTEM))}
        listed = [known.pop(each.key, each) for each in plan.schedules]
        others = (each for each in known.values() if each.handler in plan.handlers)
        listed += [each for each in others if each.sources.get(BY, plan.app) == plan.app]
        unscheduled = sorted(plan.handlers - {schedule.handler for schedule in listed})
        counts = tx.schedules.handler_tallies(unscheduled) if unscheduled else {}
        asked = [_asked_status(name, counts.get(name, Tally())) for name in unscheduled]
        return _statuses(tx, listed, now) + asked

    return world.route().store.read(read)


def statuses(world: World, schedules: Sequence[Schedule]) -> list[JobStatus]:
    """Return the status of stored schedules."""
    now = world.clock.now()
    return world.route().store.read(lambda tx: _statuses(tx, schedules, now))


def _statuses(tx: Tx, schedules: Sequence[Schedule], now: datetime) -> list[JobStatus]:
    numbers = [schedule.number for schedule in schedules if schedule.number]
    tallies, skipped = tx.schedules.tallies(numbers), tx.schedules.skipped(numbers)
    return [_status(each, tallies.get(each.number, Tally()), each.number in skipped, now=now) for each in schedules]


def _asked_status(handler: str, tally: Tally) -> JobStatus:
    """Return the status of a job without a schedule."""
    return JobStatus(
        id=handler,
        enabled=True,
        schedule=WHEN_ASKED,
        mode="SINGLE_NODE",
        last_fire_time=tally.last_started_at,
        last_duration=duration(tally.last_started_at, tally.last_finished_at),
        last_result=result_of(tally.last_outcome),
        run_count=tally.run_count,
        fail_count=tally.fail_count,
    )


def _status(schedule: Schedule, tally: Tally, was_skipped: bool, *, now: datetime) -> JobStatus:
    local = schedule.mode == "ALL_NODES" and schedule.is_active  # each node has a timer; this is what the rule says
    return status_of(
        schedule,
        next_fire_at=first_fire(schedule, now) if local else schedule.next_fire_at,
        outcome="skipped" if was_skipped else tally.last_outcome,
        started_at=tally.last_started_at,
        finished_at=tally.last_finished_at,
        run_count=tally.run_count,
        fail_count=tally.fail_count,
    )


# -- the parts -----------------------------------------------------------------------------------------------------


def _switch(world: World, stored: Iterable[Schedule], plan: Plan) -> None:
    """Apply the global switch to stored schedules of the application's handlers too."""
    for schedule in stored:
        if schedule.declared or schedule.handler not in plan.handlers:
            continue
        if schedule.inactive is None or schedule.inactive in SWITCHED_OFF:
            set_inactive(world, schedule, plan.off)


def _declare_batch(world: World, batch: Sequence[Schedule], seed: bool, known: Collection[str]) -> list[Schedule]:
    """Write a batch in one transaction; where one of them is refused, each by itself, so that the others are kept."""
    every = {schedule.key for schedule in batch}
    locked = chain([every.intersection(known)], repeat(every))  # a key that is taken all the same makes a conflict
    try:
        return _retry_conflicts(lambda: _declare(world, batch, seed, next(locked)))
    except StoreError:
        raise
    except HoraeError as problem:
        if len(batch) > 1:
            return [done for each in batch for done in _declare_batch(world, [each], seed, known)]
        log.error("schedule %s cannot be declared: %s", batch[0].key, problem)
        return []


def _declare(world: World, batch: Sequence[Schedule], seed: bool, locked: Collection[str]) -> list[Schedule]:
    for schedule in batch:
        check_schedule(world, schedule)
    now, owner = world.clock.now(), batch[0].owner

    def write(tx: Tx) -> list[Schedule]:
        stored = tx.schedules.by_keys(locked, owner, lock=True)
        new = [
            changed(each, created_at=now, updated_at=now, tzdata=world.tzdata, declared=not seed)
            for each in batch
            if each.key not in stored
        ]
        done = add_schedules(world, tx, new, "declare", "system/start", "", now) if new else []
        for each in batch:
            if (before := stored.get(each.key)) is not None:
                after = _merge(before, each, seed)
                same = after is before
                done.append(before if same else write_version(world, tx, before, after, "declare", "system/start", ""))
        return done

    return world.route(owner=owner, key=batch[0].key).store.transact(write)


def _merge(before: Schedule | None, declared: Schedule, seed: bool) -> Schedule:
    """Return a stored schedule as code and file declare it now; itself where nothing differs."""
    if before is None or seed:
        return before or declared
    kept = {field for field, source in before.sources.items() if source == "api" and field in CHANGEABLE}
    sources = {**declared.sources, **dict.fromkeys(kept, "api")}
    wanted = {field: getattr(declared, field) for field in CHANGEABLE if field not in kept}
    wanted |= {"sources": sources, "declared": True, "inactive": declared.inactive}
    if all(getattr(before, field) == value for field, value in wanted.items()):
        return before
    return replace(before, **wanted)


def _batches(world: World, schedules: Iterable[Schedule]) -> Iterator[list[Schedule]]:
    """Yield schedules that one transaction can write: those of one owner that live in one place."""
    places: dict[tuple[int, str], list[Schedule]] = defaultdict(list)
    for schedule in schedules:
        places[id(world.route(owner=schedule.owner, key=schedule.key)), schedule.owner].append(schedule)
    for each in places.values():
        yield from (each[start : start + BATCH] for start in range(0, len(each), BATCH))


def _retry_conflicts(work: Callable[[], T]) -> T:
    """Run *work* again after a conflict: several processes may start at once and declare the same."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return work()
        except Conflict:
            if not left:
                raise
    raise AssertionError("the last round always returns or raises")


def _leaders_first(declared: Sequence[Schedule]) -> list[Schedule]:
    """Sort schedules so that each comes after those it follows; a circle is refused where it is written."""
    by_key = {schedule.key: schedule for schedule in declared}
    edges = {key: [each for each in schedule.after if each in by_key] for key, schedule in by_key.items()}
    try:
        return [by_key[key] for key in TopologicalSorter(edges).static_order()]
    except CycleError:
        return list(declared)


def _pages(tx: Tx, wanted: ScheduleFilter) -> Iterator[Schedule]:
    after: Schedule | None = None
    while page := tx.schedules.find(wanted, limit=MAX_PAGE, after=after):
        yield from page
        after = page[-1]


def _unknown_handler(schedule: Schedule) -> str:
    return f"unknown handler {schedule.handler!r}: no code here declares it"
