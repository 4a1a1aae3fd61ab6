"""The verbs of schedules: create, change, pause, resume, limit, preview, delete, find, history.

Every change a person is accountable for writes its audit entry, with the whole schedule before and after, in the same
transaction: the history of versions is there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from horae.actions.consistency import one_moment
from horae.actions.jobs.definitions import refuse_closed
from horae.actions.jobs.masking import declared_names
from horae.actions.pauses import check_until, plan_end, wake_for
from horae.actions.schedules.entries import CHANGEABLE, entry_for, object_id, schedule_dict
from horae.actions.schedules.expectations import drop_open, keep_expectation
from horae.actions.schedules.follows import forget_follows, note_follows
from horae.actions.schedules.terms import keep_masked, spread, with_days
from horae.core.audit.entries import Entry
from horae.core.cluster.numbers import job_id
from horae.core.cursors import MAX_PAGE, page_size
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.machinery import queue_name
from horae.core.jobs.payloads import encode, label, name
from horae.core.outgoing.webhooks import refuse_credentials
from horae.core.scheduled_tasks.rules import apply_shortest_interval
from horae.core.scheduled_tasks.task import named_first
from horae.core.schedules.decisions import record_undecided, upcoming_fires
from horae.core.schedules.schedule import Fire, Schedule, ScheduleResult, changed, check, due_at, first_fire
from horae.core.time.instants import MICROSECOND
from horae.errors import Conflict, InvalidInput, NotFound, VersionConflict
from horae.ports.schedules import ScheduleFilter, Tally
from horae.ports.store import Tx
from horae.ports.world import World

MOST_RESULTS = 20
# The reason recorded for due fires that a verb discards.
LEFT_BEHIND = {"pause": "paused", "deactivate": "inactive", "resume": "paused"}
TIMING = {"kind", "expression", "zone", "day_match", "gap", "fold", "lenient", "anchor", "initial_delay", "starts_at",
          "ends_at", "max_fires", "enabled", "jitter", "mode", "quiet_hours", "calendar", "calendar_rule",
          "calendar_days"}  # fmt: skip


# -- make and change ---------------------------------------------------------------------------------------------


def create(
    world: World,
    schedule: Schedule,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    source: str = "api",
    admits: Callable[[Tx], None] | None = None,
) -> Schedule:
    """Store a new schedule; its first fire is computed now. *admits* may refuse it, in the same transaction."""
    now = world.clock.now()
    schedule = spread(schedule)
    check_schedule(world, schedule)

    def write(tx: Tx) -> Schedule:
        if admits is not None:
            admits(tx)
        if tx.schedules.get(schedule.key, schedule.owner) is not None:
            raise Conflict("schedule_exists", key=schedule.key)
        sources = {field: source for field in CHANGEABLE if _differs(schedule, field)} | dict(schedule.sources)
        made = replace(schedule, sources=sources, created_at=now, updated_at=now, version=1, tzdata=world.tzdata)
        return add_schedule(world, tx, made, "create", actor, reason, now)

    made = world.route(owner=schedule.owner, key=schedule.key).store.transact(write)
    world.route(owner=schedule.owner, key=schedule.key).store.wake(["*"])
    return made


def change(
    world: World,
    key: str,
    changes: Mapping[str, Any],
    *,
    owner: str = SYSTEM,
    version: int | None = None,
    actor: str = SYSTEM,
    reason: str = "",
    source: str = "api",
) -> Schedule:
    """Change a schedule and compute its next fire anew. With *version*, only if it is still that one."""
    unknown = sorted(set(changes) - set(CHANGEABLE))
    if unknown:
        raise InvalidInput("field_not_changeable", field=unknown[0], choices=list(CHANGEABLE))

    def write(tx: Tx) -> Schedule:
        before = lock_schedule(tx, key, owner)
        if version is not None and version != before.version:
            raise VersionConflict("schedule_version_old", key=key, version=before.version, expected=version)
        sources = {**before.sources, **dict.fromkeys(changes, source)}
        after = spread(keep_masked(before, replace(before, **changes, sources=sources)))
        if after.handler != before.handler:
            refuse_closed(tx, after.handler, after.owner)
        if "enabled" in changes:
            after = replace(after, toggled=None)  # a permanent decision ends a temporary toggle
        return write_version(world, tx, before, after, "change", actor, reason)

    after = world.route(owner=owner, key=key).store.transact(write)
    world.route(owner=owner, key=key).store.wake(["*"])
    return after


def pause(
    world: World,
    key: str,
    *,
    until: datetime | None = None,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> Schedule:
    """Stop the fires of a schedule *until* an instant, or until it is resumed; running jobs go on."""
    now = world.clock.now()
    ends_at = check_until(until, now)

    def write(tx: Tx) -> Schedule:
        before = lock_schedule(tx, key, owner)
        after = replace(before, paused_at=now, paused_by=actor, pause_reason=reason or None, paused_until=ends_at)
        if ends_at is not None:
            plan_end(tx, "schedule", key, owner, ends_at, now)
        return write_version(world, tx, before, after, "pause", actor, reason)

    paused = world.route(owner=owner, key=key).store.transact(write)
    wake_for(world, ends_at)
    return paused


def resume(
    world: World,
    key: str,
    *,
    paused_until: datetime | None = None,
    owner: str = SYSTEM,
    actor: str = SYSTEM,
    reason: str = "",
) -> Schedule:
    """Let a schedule fire from now on; fires missed during the pause are lost, except that of a ``once``.

    With *paused_until* only a pause that ends then is ended, and no later one.
    """

    def write(tx: Tx) -> Schedule:
        before = lock_schedule(tx, key, owner)
        if paused_until is not None and before.paused_until != paused_until:
            return before
        after = replace(before, paused_at=None, paused_by=None, pause_reason=None, paused_until=None)
        return write_version(world, tx, before, after, "resume", actor, reason)

    resumed = world.route(owner=owner, key=key).store.transact(write)
    world.route(owner=owner, key=key).store.wake(["*"])
    return resumed


def delete(world: World, key: str, *, owner: str = SYSTEM, actor: str = SYSTEM, reason: str = "") -> None:
    """Delete a schedule and its fires; jobs that it made stay."""

    def write(tx: Tx) -> None:
        before = lock_schedule(tx, key, owner)
        followers = tx.schedules.followers(before.number)
        if followers:
            raise Conflict("schedule_followed", key=key, followers=list(followers))
        now, hidden = world.clock.now(), declared_names(tx, before.handler)
        forget_follows(world, tx, before, now)
        tx.schedules.remove(before.number)
        drop_open(tx, before, "deleted", now)
        entry = entry_for(
            now, "delete", before, actor, reason, before=schedule_dict(before, hidden), hidden=hidden
        )  # fmt: skip
        tx.audit.append(replace(entry, after={}))

    world.route(owner=owner, key=key).store.transact(write)


# -- queries -----------------------------------------------------------------------------------------------------


def get(world: World, key: str, *, owner: str = SYSTEM, queues: Collection[str] = ()) -> Schedule:
    """Return one schedule; with *queues* only one that fires into those."""
    found = world.route(owner=owner, key=key).store.read(lambda tx: tx.schedules.get(key, owner))
    if found is None or (queues and found.queue not in queues):
        raise _unknown(key)
    return found


def find(
    world: World, wanted: ScheduleFilter | None = None, *, limit: int = 100, after: Schedule | str | None = None
) -> list[Schedule]:
    """Return schedules by key; *after* is the last one of the previous page (within one owner, its key)."""
    page_size(limit)
    chosen = wanted or ScheduleFilter()
    store = world.route(owner=chosen.owner).store
    return store.read(lambda tx: tx.schedules.find(chosen, limit=limit, after=after))


def find_by_next(
    world: World, wanted: ScheduleFilter, *, limit: int = 100, after: tuple[datetime | None, int] | None = None
) -> list[Schedule]:
    """Return schedules by when they are due next; *after* is that and the number of the last one before."""
    page_size(limit)
    store = world.route(owner=wanted.owner).store
    return store.read(lambda tx: tx.schedules.find_by_next(wanted, limit=limit, after=after))


def iterate(world: World, wanted: ScheduleFilter) -> Iterator[Schedule]:
    """Yield all matching schedules, read a page at a time, of one database after another; a tenant's are in one."""
    for shard in world.within(owner=None if wanted.owner == SYSTEM else wanted.owner):
        page: list[Schedule] = []
        while page := find(shard, wanted, limit=MAX_PAGE, after=page[-1] if page else None):
            yield from page


@one_moment
def history(
    world: World,
    key: str,
    *,
    owner: str = SYSTEM,
    queues: Collection[str] = (),
    limit: int = 50,
    before: datetime | None = None,
) -> list[tuple[Fire, str | None]]:
    """Return what became of each due fire, the newest first, with the job that it made."""
    schedule = get(world, key, owner=owner, queues=queues)
    rows = world.route(owner=owner, key=key).store.read(
        lambda tx: tx.schedules.history(schedule.number, limit=limit, before=before)
    )
    return [(fire, None if job is None else job_id(job)) for fire, job in rows]


@one_moment
def versions(
    world: World, key: str, *, owner: str = SYSTEM, queues: Collection[str] = (), limit: int = 50
) -> list[Entry]:
    """Return the audit entries of a schedule, the newest first."""
    get(world, key, owner=owner, queues=queues)
    wanted = {"object_id": object_id(key, owner), "owner": owner, "object_type": "schedule"}
    store = world.route(owner=owner, key=key).store
    return [entry for _, entry in store.read(lambda tx: tx.audit.find(limit=limit, before=None, **wanted))]


def tally(world: World, schedule: Schedule) -> Tally:
    """Return the counts of a schedule's runs."""
    store = world.route(owner=schedule.owner, key=schedule.key).store
    return store.read(lambda tx: tx.schedules.tallies([schedule.number])).get(schedule.number, Tally())


def last_results(
    world: World, found: Collection[Schedule], count: int = MOST_RESULTS
) -> dict[int, list[ScheduleResult]]:
    """Return the last results of schedules of one database, by number, the newest first, in one statement."""
    if not 1 <= count <= MOST_RESULTS:
        raise InvalidInput("out_of_range", name="results", value=count, least=1, most=MOST_RESULTS)
    numbers = [schedule.number for schedule in found]
    at = next((world.route(owner=each.owner, key=each.key) for each in found), world)
    return at.route().store.read(lambda tx: tx.schedules.results(numbers, limit=count))


def preview(world: World, schedule: Schedule, count: int = 5) -> list[datetime]:
    """Return the next fires of a schedule, stored or not."""
    if not 1 <= count <= MAX_PAGE:
        raise InvalidInput("out_of_range", name="count", value=count, least=1, most=MAX_PAGE)
    check(schedule)
    now = world.clock.now()
    # An interval counts from its creation; one that is not stored would be created now.
    schedule = replace(
        apply_shortest_interval(schedule, world.shortest_interval), created_at=schedule.created_at or now
    )
    if schedule.max_fires is not None:
        count = min(count, max(0, schedule.max_fires - schedule.fire_count))
    return list(islice(upcoming_fires(schedule, now), count))


# -- the parts -----------------------------------------------------------------------------------------------------


def check_schedule(world: World, schedule: Schedule) -> None:
    """Refuse a schedule that cannot be stored or cannot fire."""
    label(schedule.key, "schedule key", 200)
    label(schedule.owner, "owner")
    name(schedule.handler, "handler", 200)
    for key in schedule.after:
        label(key, "schedule key", 200)
    queue_name(schedule.queue)
    if not isinstance(schedule.payload, dict):
        raise InvalidInput("schedule_payload_no_object")
    refuse_credentials(schedule.handler, schedule.payload)
    encode(schedule.payload, max_bytes=world.max_payload_bytes)
    check(schedule)


def with_next_fire(world: World, schedule: Schedule, now: datetime, first: datetime | None = None) -> Schedule:
    """Return the schedule with its next fire (*first*, where given), or without one where it must not fire."""
    if not schedule.is_active or schedule.is_spent or schedule.mode == "ALL_NODES":
        return changed(schedule, next_fire_at=None, next_due_at=None, tzdata=world.tzdata)
    fire_at = (
        first
        or named_first(schedule, now)
        or first_fire(apply_shortest_interval(schedule, world.shortest_interval), now)
    )
    due = due_at(schedule, fire_at, world.dice.roll())
    return changed(schedule, next_fire_at=fire_at, next_due_at=due, tzdata=world.tzdata)


def add_schedule(
    world: World, tx: Tx, schedule: Schedule, verb: str, actor: str, reason: str, now: datetime
) -> Schedule:
    """Write the first version with its audit entry and its first fire."""
    return add_schedules(world, tx, [schedule], verb, actor, reason, now)[0]


def add_schedules(
    world: World, tx: Tx, new: Sequence[Schedule], verb: str, actor: str, reason: str, now: datetime
) -> list[Schedule]:
    """Write the first versions of schedules of one owner, in as many statements as one would take."""
    for handler in {schedule.handler for schedule in new}:
        refuse_closed(tx, handler, new[0].owner)
    planned = [with_next_fire(world, with_days(tx, schedule), now) for schedule in new]
    planned = [keep_expectation(world, tx, None, schedule, now) for schedule in planned]
    numbers = tx.schedules.add(planned)
    made = [changed(each, number=number) for each, number in zip(planned, numbers, strict=True)]
    for schedule in made:
        if schedule.after:
            note_follows(world, tx, schedule, now)
    hidden = tx.definitions.sensitive({schedule.handler for schedule in made})
    tx.audit.append_many(
        entry_for(now, verb, each, actor, reason, before={}, hidden=hidden.get(each.handler, ())) for each in made
    )
    return made


def write_version(
    world: World,
    tx: Tx,
    before: Schedule,
    after: Schedule,
    verb: str,
    actor: str,
    reason: str,
    first: datetime | None = None,
) -> Schedule:
    """Write the next version with its audit entry; compute the next fire anew where the timing changed, unless *first*
    gives it.
    """
    if after.inactive is None or after.inactive == before.inactive:
        check_schedule(world, after)  # else it becomes inactive because it cannot work
    after = with_days(tx, after, before)
    now = world.clock.now()
    timing = any(getattr(before, field) != getattr(after, field) for field in TIMING)
    if timing or first is not None or before.is_active != after.is_active or before.tzdata != after.tzdata:
        after = with_next_fire(world, after, now, first)
        if after.rests and first is None and after.last_fire_at is not None and tx.schedules.awaited(after.number):
            after = replace(after, next_fire_at=None, next_due_at=None)  # it counts from the end of that job
        if after.next_fire_at != before.next_fire_at:
            after = _without_due(tx, before, after, now, LEFT_BEHIND.get(verb, "changed"))
    after = keep_expectation(world, tx, before, after, now, afresh=timing)
    after = replace(after, version=before.version + 1, updated_at=now)
    tx.schedules.put(after, expected_version=before.version)
    if before.after != after.after:
        note_follows(world, tx, after, now, before.after)
    hidden = {*declared_names(tx, before.handler), *declared_names(tx, after.handler)}
    was = schedule_dict(before, hidden)
    tx.audit.append(entry_for(now, verb, after, actor, reason, before=was, hidden=hidden))
    return after


def _without_due(tx: Tx, before: Schedule, after: Schedule, now: datetime, reason: str) -> Schedule:
    """Record due fires that were not decided on yet, because the scheduler will no longer see them."""
    left = record_undecided(before, now, reason)
    if left is None:
        return after
    known = tx.schedules.history(before.number, limit=3, before=left.fire_at + MICROSECOND)
    if not any(fire.kind == "schedule" and fire.fire_at == left.fire_at for fire, _ in known):
        tx.schedules.record(before.number, left, None, now)
    return replace(after, last_fire_at=left.last_at or left.fire_at)


def _differs(schedule: Schedule, field: str) -> bool:
    plain = Schedule(key="k", handler="h", kind="cron", expression="* * * * *")
    return bool(getattr(schedule, field) != getattr(plain, field)) or field in ("handler", "kind", "expression")


def lock_schedule(tx: Tx, key: str, owner: str) -> Schedule:
    found = tx.schedules.get(key, owner, lock=True)
    if found is None:
        raise _unknown(key)
    return found


def _unknown(key: str) -> NotFound:
    return NotFound("schedule_unknown", key=key)
