"""The verbs of users' own tasks (document 001): create, change, delete, look, trigger, release, preview, explain.

A task is a schedule of its tenant. With *owner* None the caller is an operator and sees everybody's; a foreign task
does not exist. Editing never touches what runs: only a lease that has run out is closed, as the reaper would.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from horae.actions.consistency import one_moment
from horae.actions.jobs import endings, reasons
from horae.actions.jobs.definitions import refuse_closed
from horae.actions.jobs.leases import with_wall_lease
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.actions.schedules.schedules import CHANGEABLE, checked, entry_for, schedule_dict, written
from horae.core.access.owners import OwnerSettings
from horae.core.cursors import page_size
from horae.core.jobs.job import SYSTEM, Job, request_hash
from horae.core.jobs.payloads import label
from horae.core.jobs.reasons import Reason
from horae.core.scheduled_tasks.rules import PREFIX
from horae.core.scheduled_tasks.task import (
    BY_KEY,
    ID_LENGTH,
    Facts,
    Plan,
    Terms,
    Wish,
    blank,
    check_payload,
    id_for,
    is_task_id,
    plan,
)
from horae.core.schedules.schedule import Schedule, first_fire, next_fire
from horae.core.schedules.standing import why_silent
from horae.errors import Conflict, InvalidInput, KeyConflict, NotAllowed, NotFound, QuotaExceeded, VersionConflict
from horae.ports import ScheduledTaskRun, Tx, World

MAX_PREVIEW = 100
SOURCE = "api"


@dataclass(frozen=True, slots=True)
class Saved:
    """A task after it was made or changed, and what its user should be told about it."""

    facts: Facts
    warnings: tuple[str, ...] = ()
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """When a task will run, or one that is only thought of would."""

    schedule: Schedule
    fires: tuple[datetime, ...]
    warnings: tuple[str, ...] = ()


# -- make and change ---------------------------------------------------------------------------------------------


def create(
    world: World,
    wish: Wish,
    *,
    owner: str = SYSTEM,
    terms: Terms,
    key: str | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> Saved:
    """Make a task. With *key*, the same request again gives the task that it made; it is counted once."""
    now = world.clock.now()
    task_id = PREFIX + world.dice.name(ID_LENGTH) if key is None else id_for(owner, label(key, "idempotency key"))
    asked = "" if key is None else request_hash(asdict(wish))

    def write(tx: Tx) -> Saved:
        tx.owners.lock(owner, now)
        if key is not None:
            known = tx.scheduled_tasks.get(task_id, owner)
            if known is not None and terms.only_queues and known.queue not in terms.only_queues:
                raise Conflict("task_key_in_other_queue", key=key)
            if known is not None:
                return Saved(_facts(world, tx, _same_request(known, key, asked)))
            _not_deleted(tx, task_id, owner, key)
        made = _planned(world, tx, task_id, wish, owner, terms, now)
        facts = Facts(_stored(world, tx, made, asked, actor, reason, now), shortest=world.shortest_interval)
        return Saved(facts, made.warnings, is_new=True)

    saved = world.route(owner=owner, key=key).store.transact(write)
    world.route(owner=owner, key=key).store.wake(["*"])
    return saved


def _planned(world: World, tx: Tx, task_id: str, wish: Wish, owner: str, terms: Terms, now: datetime) -> Plan:
    """What a wish for a new task comes to; whatever stands in its way is refused."""
    settings = OwnerSettings.read(tx.owners.settings(owner))
    made = plan(Facts(blank(task_id, owner)), wish, terms, settings.rules, now)
    checked(world, made.schedule)
    refuse_closed(tx, made.schedule.handler, owner)
    if made.arms:
        _check_quota(tx, owner, settings, terms)
    return made


def _stored(world: World, tx: Tx, made: Plan, asked: str, actor: str, reason: str, now: datetime) -> Schedule:
    sources = dict.fromkeys(("handler", "kind", "expression", "enabled"), SOURCE) | ({BY_KEY: asked} if asked else {})
    schedule = replace(made.schedule, sources=sources, created_at=now, updated_at=now, tzdata=world.tzdata)
    schedule = schedules.timed(world, schedule, now, made.first)
    schedule = replace(schedule, number=tx.schedules.add(schedule))
    tx.audit.append(entry_for(now, "create", schedule, actor, reason, before={}))
    return schedule


def _same_request(known: Schedule, key: str, asked: str) -> Schedule:
    if known.sources.get(BY_KEY) != asked:
        raise KeyConflict(key, known.key)
    return known


def _not_deleted(tx: Tx, task_id: str, owner: str, key: str) -> None:
    """The audit remembers what a key has made, so that a late repetition does not bring back what was deleted."""
    if tx.audit.find(object_id=schedules.object_id(task_id, owner), owner=owner, limit=1, before=None):
        raise Conflict("task_key_of_deleted", key=key, id=task_id)


def _check_quota(tx: Tx, owner: str, settings: OwnerSettings, terms: Terms) -> None:
    """S1-33. Whoever counts holds the tenant's lock, so that no two can take the last place."""
    own = settings.max_enabled_tasks
    allowed = terms.max_enabled if own is None else own
    if allowed and tx.scheduled_tasks.count_enabled(owner) >= allowed:
        raise QuotaExceeded("max_enabled_tasks", allowed, "too_many_enabled_tasks")


def change(
    world: World,
    task_id: str,
    wish: Wish,
    *,
    owner: str | None,
    terms: Terms,
    versions: Collection[int] | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> Saved:
    """Change what is wished for and leave the rest; the next run is computed anew where its time may have changed."""
    seen = get(world, task_id, owner=owner, queues=terms.only_queues)
    owned_by = seen.schedule.owner
    now = world.clock.now()
    endings.lose(world, [job for job in seen.live if _is_silent(job, now)])

    def write(tx: Tx) -> Saved:
        settings = OwnerSettings.read(tx.owners.lock(owned_by, now))
        before = _locked(tx, task_id, owned_by, versions, terms.only_queues)
        facts = _facts(world, tx, before)
        made = plan(facts, wish, terms, settings.rules, now)
        checked(world, made.schedule)
        if made.schedule.handler != before.handler:
            refuse_closed(tx, made.schedule.handler, owned_by)
        if made.arms:
            _check_quota(tx, owned_by, settings, terms)
        if made.retimed:
            _withdraw(tx, facts.live, "the task was changed", now)
        elif made.schedule == before:
            return Saved(facts, made.warnings)
        changed = {name: SOURCE for name in CHANGEABLE if getattr(before, name) != getattr(made.schedule, name)}
        after = replace(made.schedule, sources={**before.sources, **changed})
        after = written(world, tx, before, after, "change", actor, reason, made.first)
        return Saved(_facts(world, tx, after), made.warnings)

    saved = world.route(owner=owner, id=task_id).store.transact(write)
    world.route(owner=owner, id=task_id).store.wake(["*"])
    return saved


def delete(
    world: World,
    task_id: str,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    versions: Collection[int] | None = None,
    actor: str = SYSTEM,
    reason: str = "",
) -> None:
    """Forget a task. What waits for it is withdrawn; what runs goes on, and nobody sees how it ends."""
    owned_by = get(world, task_id, owner=owner, queues=queues).schedule.owner
    now = world.clock.now()

    def write(tx: Tx) -> None:
        before = _locked(tx, task_id, owned_by, versions, queues)
        _withdraw(tx, tx.scheduled_tasks.live([before.number]).get(before.number, ()), "the task was deleted", now)
        tx.schedules.remove(before.number)
        entry = entry_for(now, "delete", before, actor, reason, before=schedule_dict(before))
        tx.audit.append(replace(entry, after={}))

    world.route(owner=owner, id=task_id).store.transact(write)


def _withdraw(tx: Tx, live: Collection[Job], reason: str, now: datetime) -> None:
    """End what waits; a job that a worker has taken meanwhile runs on."""
    for job in live:
        locked = tx.jobs.lock(job.number) if job.state == "queued" else None
        if locked is not None and locked.state == "queued":
            tx.jobs.end_waiting(locked, reason=reason, now=now)


def _is_silent(job: Job, now: datetime) -> bool:
    return job.state == "running" and job.leased_until is not None and job.leased_until < now


# -- look --------------------------------------------------------------------------------------------------------


def get(world: World, task_id: str, *, owner: str | None, queues: Collection[str] = ()) -> Facts:
    """One task; with *queues*, one that fires into another queue does not exist."""
    return world.route(owner=owner, id=task_id).store.read(
        lambda tx: _facts(world, tx, _found(tx, task_id, owner, queues))
    )


def find(
    world: World,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    limit: int = 50,
    after: tuple[str, int, int] | None = None,
) -> list[Facts]:
    """Tasks, the last changed first (S1-14); *after* is owner, change and number of the last one told."""
    page_size(limit)

    def look(tx: Tx) -> list[Facts]:
        page = tx.scheduled_tasks.find(owner, limit=limit, after=after, queues=queues)
        live = tx.scheduled_tasks.live([each.number for each in page])
        seen = {number: tuple(with_wall_lease(world, job) for job in found) for number, found in live.items()}
        return [
            Facts(each, seen.get(each.number, ()), tx.scheduled_tasks.last_run(each.number), world.shortest_interval)
            for each in page
        ]

    return world.route(owner=owner).store.read(look)


def runs(
    world: World,
    task_id: str,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    limit: int = 50,
    before: tuple[int, int] | None = None,
) -> list[ScheduledTaskRun]:
    """What it ran, the newest first, the attempt under way among them (S1-12, S1-18)."""
    page_size(limit)

    def look(tx: Tx) -> list[ScheduledTaskRun]:
        return tx.scheduled_tasks.runs(_found(tx, task_id, owner, queues).number, limit=limit, before=before)

    return world.route(owner=owner, id=task_id).store.read(look)


@one_moment
def why(
    world: World, task_id: str, *, owner: str | None, queues: Collection[str] = ()
) -> tuple[Facts, tuple[Reason, ...]]:
    """How it stands and why, from data alone (S1-36); never without a reason."""
    facts = get(world, task_id, owner=owner, queues=queues)
    found = [reason for job in facts.live for reason in reasons.why(world, job, owner=owner)]
    if facts.is_over and facts.reason is not None:
        found.append(Reason("over", facts.reason))
    silent = why_silent(facts.schedule, world.clock.now())
    found += [reason for reason in silent if facts.schedule.kind != "once" or reason.code not in ("spent", "passed")]
    return facts, tuple(found) or (Reason("scheduled", "nothing stands in its way; it runs at next_run_at"),)


def preview(world: World, task_id: str, *, owner: str | None, queues: Collection[str] = (), count: int = 5) -> Preview:
    """The next runs of a task."""
    facts = get(world, task_id, owner=owner, queues=queues)
    fires = schedules.preview(world, facts.effective, _checked_count(count))
    return Preview(facts.effective, tuple(fires), facts.notices)


def consider(world: World, wish: Wish, *, owner: str, terms: Terms, count: int = 5) -> Preview:
    """The same for a task that is only thought of: nothing is stored, and what `create` refuses is refused here too."""
    now = world.clock.now()
    made = world.route(owner=owner).store.read(lambda tx: _planned(world, tx, PREFIX, wish, owner, terms, now))
    schedule = replace(made.schedule, created_at=now)
    fire = made.first or first_fire(schedule, now)
    fires: list[datetime] = []
    while fire is not None and len(fires) < _checked_count(count):
        fires.append(fire)
        fire = next_fire(schedule, fire)
    return Preview(schedule, tuple(fires), tuple(each for each in made.warnings if each not in made.about_payload))


# -- by hand -----------------------------------------------------------------------------------------------------


def trigger(
    world: World,
    task_id: str,
    payload: Mapping[str, Any] | None = None,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    actor: str = SYSTEM,
    reason: str = "",
) -> tuple[firing.Triggered, tuple[str, ...]]:
    """Run it now, enabled or not, with other values in its payload where some are given (C-23)."""
    schedule = get(world, task_id, owner=owner, queues=queues).schedule
    if schedule.inactive is not None:
        raise NotAllowed("task_cannot_run", problem=schedule.inactive)
    rules = OwnerSettings.read(
        world.route(owner=owner, id=task_id).store.read(lambda tx: tx.owners.settings(schedule.owner))
    ).rules
    kept, warnings = check_payload(schedule.handler, {**schedule.payload, **(payload or {})}, rules)
    done = firing.trigger(world, schedule.key, kept, owner=schedule.owner, actor=actor, reason=reason)
    if not done.ran:  # on record as a skipped fire
        raise Conflict("task_running")
    return done, tuple(warnings)


def release(
    world: World,
    task_id: str,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    actor: str = SYSTEM,
    reason: str = "",
) -> Facts:
    """Take the running attempt from its worker and let the task run again at once; no attempt is counted."""
    running = get(world, task_id, owner=owner, queues=queues).running
    if running is None:
        raise NotAllowed("task_not_running")
    endings.release(world, running.id, actor=actor, reason=reason)
    return get(world, task_id, owner=owner)


# -- the parts ---------------------------------------------------------------------------------------------------


def key_of(world: World, number: int) -> str | None:
    """Return the key of a schedule; None where it was deleted."""
    found = world.route().store.read(lambda tx: tx.schedules.by_number([number])).get(number)
    return None if found is None else found.key


def _facts(world: World, tx: Tx, schedule: Schedule) -> Facts:
    live = [with_wall_lease(world, job) for job in tx.scheduled_tasks.live([schedule.number]).get(schedule.number, ())]
    return Facts(schedule, tuple(live), tx.scheduled_tasks.last_run(schedule.number), world.shortest_interval)


def _found(tx: Tx, task_id: str, owner: str | None, queues: Collection[str] = (), *, lock: bool = False) -> Schedule:
    found = tx.scheduled_tasks.get(task_id, owner, lock=lock) if is_task_id(task_id) else None
    return _check_reach(found, queues)


def _check_reach(found: Schedule | None, queues: Collection[str]) -> Schedule:
    if found is None or (queues and found.queue not in queues):
        raise NotFound("scheduled_task_unknown")
    return found


def _locked(
    tx: Tx, task_id: str, owner: str, versions: Collection[int] | None, queues: Collection[str] = ()
) -> Schedule:
    found = _found(tx, task_id, owner, queues, lock=True)
    if versions is not None and found.version not in versions:
        raise VersionConflict("task_version_old", version=found.version)
    return found


def _checked_count(count: int) -> int:
    if not 1 <= count <= MAX_PREVIEW:
        raise InvalidInput("out_of_range", name="count", value=count, least=1, most=MAX_PREVIEW)
    return count
