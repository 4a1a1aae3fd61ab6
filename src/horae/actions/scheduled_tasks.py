"""The verbs of users' own tasks (document 001): create, change, delete, find, trigger, release, preview, explain.

A task is a schedule of its tenant. With *owner* None the caller is an operator and sees all tasks; for a tenant the
tasks of others do not exist. Changes leave running jobs alone: only an expired lease is closed, as the reaper would.
"""

# size: every verb of one room, each of them short

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from horae.actions.consistency import one_moment
from horae.actions.jobs import endings, reasons
from horae.actions.jobs.definitions import refuse_closed
from horae.actions.jobs.leases import with_wall_lease
from horae.actions.jobs.masking import declared_names
from horae.actions.schedules import fires as firing
from horae.actions.schedules import schedules
from horae.actions.schedules.entries import CHANGEABLE, entry_for, object_id, schedule_dict
from horae.actions.schedules.expectations import drop_open
from horae.actions.schedules.schedules import check_schedule, write_version
from horae.actions.schedules.terms import keep_masked
from horae.core.access.owners import OwnerSettings
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
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
from horae.core.schedules.status import why_silent
from horae.errors import Conflict, InvalidInput, KeyConflict, NotAllowed, NotFound, QuotaExceeded, VersionConflict
from horae.ports.scheduled_tasks import ScheduledTaskRun
from horae.ports.store import Tx
from horae.ports.world import World

MAX_PREVIEW = 100
SOURCE = "api"


@dataclass(frozen=True, slots=True)
class Saved:
    """A task after it was made or changed, and warnings for its user."""

    facts: Facts
    warnings: tuple[Reason, ...] = ()
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Quota:
    """How many tasks of a tenant are enabled, and how many may be; 0: any number."""

    enabled: int
    allowed: int


@dataclass(frozen=True, slots=True)
class Preview:
    """The next runs of a task, stored or not."""

    schedule: Schedule
    fires: tuple[datetime, ...]
    warnings: tuple[Reason, ...] = ()


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
    """Create a task. With *key*, the same request again returns the same task; it is counted once."""
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
            _refuse_deleted(tx, task_id, owner, key)
        made = _plan(world, tx, task_id, wish, owner, terms, now)
        facts = Facts(_store(world, tx, made, asked, actor, reason, now), shortest=world.shortest_interval)
        return Saved(facts, made.warnings, is_new=True)

    saved = world.route(owner=owner, key=key).store.transact(write)
    world.route(owner=owner, key=key).store.wake(["*"])
    return saved


def _plan(world: World, tx: Tx, task_id: str, wish: Wish, owner: str, terms: Terms, now: datetime) -> Plan:
    """Return the plan of a new task, or refuse it."""
    settings = OwnerSettings.read(tx.owners.settings(owner))
    made = plan(Facts(blank(task_id, owner)), wish, terms, settings.rules, now)
    check_schedule(world, made.schedule)
    refuse_closed(tx, made.schedule.handler, owner)
    if made.arms:
        _check_quota(tx, owner, settings, terms)
    return made


def _store(world: World, tx: Tx, made: Plan, asked: str, actor: str, reason: str, now: datetime) -> Schedule:
    sources = dict.fromkeys(("handler", "kind", "expression", "enabled"), SOURCE) | ({BY_KEY: asked} if asked else {})
    schedule = replace(made.schedule, sources=sources, created_at=now, updated_at=now, tzdata=world.tzdata)
    schedule = schedules.with_next_fire(world, schedule, now, made.first)
    schedule = replace(schedule, number=tx.schedules.add([schedule])[0])
    hidden = declared_names(tx, schedule.handler)
    tx.audit.append(entry_for(now, "create", schedule, actor, reason, before={}, hidden=hidden))
    return schedule


def _same_request(known: Schedule, key: str, asked: str) -> Schedule:
    if known.sources.get(BY_KEY) != asked:
        raise KeyConflict(key, known.key)
    return known


def _refuse_deleted(tx: Tx, task_id: str, owner: str, key: str) -> None:
    """Refuse the key of a deleted task, which the audit knows, so that a late repetition does not bring it back."""
    if tx.audit.find(object_id=object_id(task_id, owner), owner=owner, limit=1, before=None):
        raise Conflict("task_key_of_deleted", key=key, id=task_id)


def _check_quota(tx: Tx, owner: str, settings: OwnerSettings, terms: Terms) -> None:
    """Refuse one enabled task too many (S1-33); the tenant's lock is held, so that no two take the last one."""
    allowed = _allowed(settings, terms)
    if allowed and tx.scheduled_tasks.count_enabled(owner) >= allowed:
        raise QuotaExceeded("max_enabled_tasks", allowed, "too_many_enabled_tasks")


def _allowed(settings: OwnerSettings, terms: Terms) -> int:
    own = settings.max_enabled_tasks
    return terms.max_enabled if own is None else own


def quota(world: World, *, owner: str, terms: Terms) -> Quota:
    """Return how many tasks of a tenant are enabled, and how many may be."""

    def read(tx: Tx) -> Quota:
        settings = OwnerSettings.read(tx.owners.settings(owner))
        return Quota(tx.scheduled_tasks.count_enabled(owner), _allowed(settings, terms))

    return world.route(owner=owner).store.read(read)


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
    """Change the given fields and keep the rest; recompute the next run if its timing may have changed."""
    seen = get(world, task_id, owner=owner, queues=terms.only_queues)
    owned_by = seen.schedule.owner
    now = world.clock.now()
    endings.lose(world, [job for job in seen.live if _is_silent(job, now)])

    def write(tx: Tx) -> Saved:
        settings = OwnerSettings.read(tx.owners.lock(owned_by, now))
        before = _lock_task(tx, task_id, owned_by, versions, terms.only_queues)
        facts = _facts(world, tx, before)
        made = plan(facts, wish, terms, settings.rules, now)
        made = replace(made, schedule=keep_masked(before, made.schedule))
        check_schedule(world, made.schedule)
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
        after = write_version(world, tx, before, after, "change", actor, reason, made.first)
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
    """Delete a task and end its waiting jobs; a running one goes on."""
    owned_by = get(world, task_id, owner=owner, queues=queues).schedule.owner
    now = world.clock.now()

    def write(tx: Tx) -> None:
        before = _lock_task(tx, task_id, owned_by, versions, queues)
        _withdraw(tx, tx.scheduled_tasks.live([before.number]).get(before.number, ()), "the task was deleted", now)
        tx.schedules.remove(before.number)
        drop_open(tx, before, "deleted", now)
        was = schedule_dict(before, declared_names(tx, before.handler))
        entry = entry_for(now, "delete", before, actor, reason, before=was)
        tx.audit.append(replace(entry, after={}))

    world.route(owner=owner, id=task_id).store.transact(write)


def _withdraw(tx: Tx, live: Collection[Job], reason: str, now: datetime) -> None:
    """End waiting jobs; one that a worker has taken meanwhile runs on."""
    for job in live:
        waiting = tx.jobs.lock(job.number) if job.state == "queued" else None
        if waiting is not None and waiting.state == "queued":
            tx.jobs.end_waiting(waiting, reason=reason, now=now)


def _is_silent(job: Job, now: datetime) -> bool:
    return job.state == "running" and job.leased_until is not None and job.leased_until < now


# -- queries -----------------------------------------------------------------------------------------------------


def get(world: World, task_id: str, *, owner: str | None, queues: Collection[str] = ()) -> Facts:
    """Return one task; with *queues* only one that fires into those."""
    return world.route(owner=owner, id=task_id).store.read(
        lambda tx: _facts(world, tx, _find(tx, task_id, owner, queues))
    )


def find(
    world: World,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    limit: int = 50,
    after: tuple[str, int, int] | None = None,
) -> list[Facts]:
    """Return tasks, the last changed first (S1-14); *after* is owner, change and number of the last one before."""
    page_size(limit)

    def read(tx: Tx) -> list[Facts]:
        page = tx.scheduled_tasks.find(owner, limit=limit, after=after, queues=queues)
        live = tx.scheduled_tasks.live([each.number for each in page])
        seen = {number: tuple(with_wall_lease(world, job) for job in found) for number, found in live.items()}
        return [
            Facts(each, seen.get(each.number, ()), tx.scheduled_tasks.last_run(each.number), world.shortest_interval)
            for each in page
        ]

    return world.route(owner=owner).store.read(read)


def runs(
    world: World,
    task_id: str,
    *,
    owner: str | None,
    queues: Collection[str] = (),
    limit: int = 50,
    before: tuple[int, int] | None = None,
    everywhere: World | None = None,
) -> list[ScheduledTaskRun]:
    """Return the runs of a task, the newest first, with the attempt under way (S1-12, S1-18).

    They may be where the task was before a move: *everywhere* is the world of a cluster that knows where the task is.
    """
    page_size(limit)
    keeper = None if everywhere is None else everywhere.route(owner=owner, id=task_id).store
    known = None if keeper is None else keeper.read(lambda tx: _find(tx, task_id, owner, queues).number)

    def read(tx: Tx) -> list[ScheduledTaskRun]:
        number = _find(tx, task_id, owner, queues).number if known is None else known
        return tx.scheduled_tasks.runs(number, limit=limit, before=before)

    return world.route(owner=owner, id=task_id).store.read(read)


@one_moment
def why(
    world: World, task_id: str, *, owner: str | None, queues: Collection[str] = ()
) -> tuple[Facts, tuple[Reason, ...]]:
    """Return a task with the reasons for its state (S1-36); at least one."""
    facts = get(world, task_id, owner=owner, queues=queues)
    found = [reason for job in facts.live for reason in reasons.why(world, job, owner=owner)]
    if facts.is_over and facts.reason is not None:
        found.append(facts.reason)
    silent = why_silent(facts.schedule, world.clock.now())
    found += [reason for reason in silent if facts.schedule.kind != "once" or reason.code not in ("spent", "passed")]
    return facts, tuple(found) or (Reason("scheduled", "nothing_in_its_way"),)


def preview(world: World, task_id: str, *, owner: str | None, queues: Collection[str] = (), count: int = 5) -> Preview:
    """Return the next runs of a task."""
    facts = get(world, task_id, owner=owner, queues=queues)
    fires = schedules.preview(world, facts.effective, _check_count(count))
    return Preview(facts.effective, tuple(fires), facts.notices)


def consider(world: World, wish: Wish, *, owner: str, terms: Terms, count: int = 5) -> Preview:
    """Return the next runs of a task without storing it; what `create` refuses is refused here too."""
    now = world.clock.now()
    made = world.route(owner=owner).store.read(lambda tx: _plan(world, tx, PREFIX, wish, owner, terms, now))
    schedule = replace(made.schedule, created_at=now)
    fire = made.first or first_fire(schedule, now)
    fires: list[datetime] = []
    while fire is not None and len(fires) < _check_count(count):
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
) -> tuple[firing.Triggered, tuple[Reason, ...]]:
    """Run a task now, enabled or not; *payload* replaces single values of its own (C-23)."""
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


def _find(tx: Tx, task_id: str, owner: str | None, queues: Collection[str] = (), *, lock: bool = False) -> Schedule:
    found = tx.scheduled_tasks.get(task_id, owner, lock=lock) if is_task_id(task_id) else None
    return _check_reach(found, queues)


def _check_reach(found: Schedule | None, queues: Collection[str]) -> Schedule:
    if found is None or (queues and found.queue not in queues):
        raise NotFound("scheduled_task_unknown")
    return found


def _lock_task(
    tx: Tx, task_id: str, owner: str, versions: Collection[int] | None, queues: Collection[str] = ()
) -> Schedule:
    found = _find(tx, task_id, owner, queues, lock=True)
    if versions is not None and found.version not in versions:
        raise VersionConflict("task_version_old", version=found.version)
    return found


def _check_count(count: int) -> int:
    if not 1 <= count <= MAX_PREVIEW:
        raise InvalidInput("out_of_range", name="count", value=count, least=1, most=MAX_PREVIEW)
    return count
