"""Batches: make one with its jobs and callbacks, look at it, cancel it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from horae.actions.jobs.jobs import cancel as cancel_job
from horae.actions.jobs.requests import Request, new_job
from horae.actions.shards import seek
from horae.core.audit.entries import Entry
from horae.core.cluster.numbers import job_id
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.jobs.batch import (
    BATCH_STATES,
    CALLBACKS,
    HELD_BY_BATCH,
    MOST_JOBS,
    Batch,
    BatchState,
    Callback,
    batch_number,
)
from horae.core.jobs.job import SYSTEM, NewJob, request_hash
from horae.core.jobs.payloads import label
from horae.errors import Conflict, InvalidInput, KeyConflict, NotAllowed, NotFound, QuotaExceeded

if TYPE_CHECKING:
    from horae.ports.store import Tx
    from horae.ports.world import World

AT_ONCE = 100  # jobs of a batch that are cancelled between two looks at it
MANY = 20  # batches of one step of a repair


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request for a batch: its jobs, and the job that follows each outcome."""

    jobs: Sequence[Request]
    name: str = ""
    key: str | None = None
    owner: str = SYSTEM
    callbacks: Mapping[Callback, Request] = field(default_factory=dict)
    reason: str = ""  # for the audit; the same key with another reason is the same batch


def create(world: World, asked: BatchRequest, *, actor: str = SYSTEM, allowed: int = 0) -> tuple[Batch, list[int]]:
    """Store a batch, its jobs and its callbacks in one transaction; return it, and the numbers of its jobs.

    The same key and the same request again is the same batch. *allowed* is how many unfinished jobs a tenant may have;
    0: as many as it likes.
    """
    _check(asked)
    now = world.clock.now()
    members = [_member(world, each, now) for each in asked.jobs]
    callbacks = {name: _callback(world, each, now) for name, each in asked.callbacks.items()}
    batch = Batch(
        0, asked.name or asked.jobs[0].handler, "open", label(asked.owner, "owner"), len(members), now, actor,
        None if asked.key is None else label(asked.key, "key"), _hash(members, callbacks),
    )  # fmt: skip

    def write(tx: Tx) -> tuple[Batch, list[int]]:
        known = None if batch.key is None else tx.batches.by_key(batch.owner, batch.key)
        number = None if known is not None else tx.batches.add(batch)
        if number is None:
            return _known(tx, batch), []
        if allowed:
            tx.owners.lock(batch.owner, now)
            there = tx.jobs.unfinished(batch.owner, allowed)
            if there + len(members) + len(callbacks) > allowed:
                raise QuotaExceeded("jobs", allowed, "too_many_jobs", owner=batch.owner, unfinished=there)
        held = [replace(row, held_for=replace(batch, number=number).id) for row in callbacks.values()]
        placed = [each.number for each in tx.jobs.insert([*members, *held], now)]
        called: dict[str, Any] = dict(zip(callbacks, placed[len(members) :], strict=True))
        stored = replace(batch, number=number, **called)
        woken = tx.batches.fill(stored, placed[: len(members)], now, has_waiting=any(row.after for row in members))
        after = {"jobs": stored.total, "name": stored.name}
        tx.audit.append(_entry(stored, "create_batch", actor, now, reason=asked.reason, after=after))
        tx.wake(woken | {row.queue for row in members})
        return stored, placed[: len(members)]

    return world.route(owner=asked.owner, key=asked.key).store.transact(write)


def _check(asked: BatchRequest) -> None:
    if not asked.jobs:
        raise InvalidInput("batch_empty")
    if len(asked.jobs) > MOST_JOBS:
        raise InvalidInput("batch_too_large", count=len(asked.jobs), most=MOST_JOBS)
    label(asked.name or asked.jobs[0].handler, "name", 200)
    unknown = sorted({*asked.callbacks} - {*CALLBACKS})
    if unknown:
        raise InvalidInput("choice_unknown", name="callback", value=unknown[0], choices=list(CALLBACKS))
    for each in (*asked.jobs, *asked.callbacks.values()):
        if each.key is not None or each.unique is not None or each.object_type is not None:
            raise InvalidInput("batch_job_named", handler=each.handler)
        if each.debounce is not None or each.collect is not None:
            raise InvalidInput("gather_not_with", option="batch")
        if each.owner != asked.owner:
            raise InvalidInput("batch_owner_differs", owner=asked.owner, other=each.owner)
    for name, each in asked.callbacks.items():
        if each.after:
            raise InvalidInput("batch_callback_waits", name=name)


def _member(world: World, request: Request, now: datetime) -> NewJob:
    return replace(new_job(world, request, now), has_dependents=True)


def _callback(world: World, request: Request, now: datetime) -> NewJob:
    return replace(new_job(world, request, now), held=HELD_BY_BATCH)


def _hash(members: Sequence[NewJob], callbacks: Mapping[Callback, NewJob]) -> str:
    rows = [(row.handler, row.payload, row.queue, row.band) for row in (*members, *callbacks.values())]
    return request_hash({"jobs": rows, "callbacks": list(callbacks)})


def _known(tx: Tx, asked: Batch) -> Batch:
    """Return the batch that has the key already; refuse another request under it."""
    assert asked.key is not None
    known = tx.batches.by_key(asked.owner, asked.key, latest=True)
    if known is None or known.request_hash != asked.request_hash:
        raise KeyConflict(asked.key, "another batch" if known is None else known.id)
    counted = tx.batches.get(known.number)
    assert counted is not None
    return counted


# -- looking -----------------------------------------------------------------------------------------------------


def get(world: World, batch_id: str, *, owner: str | None = None) -> Batch:
    """Return one batch with its counts; with *owner* only one of that tenant."""
    number = batch_number(batch_id)
    found = seek(world, batch_id, owner, lambda tx: tx.batches.get(number))
    if found is None or owner not in (None, found.owner):
        raise NotFound("batch_unknown", id=batch_id)
    return found


def find(
    world: World,
    *,
    owner: str | None = None,
    states: Collection[str] = (),
    limit: int = 50,
    before: int | None = None,
) -> tuple[list[Batch], int | None]:
    """Return a page of batches, the newest first, and the number before which the next one begins."""
    page_size(limit)
    unknown = sorted(set(states) - set(BATCH_STATES))
    if unknown:
        raise InvalidInput("choice_unknown", name="state", value=unknown[0], choices=list(BATCH_STATES))
    found = world.route(owner=owner).store.read(
        lambda tx: tx.batches.find(owner=owner, states=states, limit=limit + 1, before=before)
    )
    return found[:limit], found[limit - 1].number if len(found) > limit else None


def members(
    world: World,
    batch_id: str,
    *,
    state: BatchState | None = None,
    limit: int = 100,
    after: int = 0,
    owner: str | None = None,
) -> tuple[list[int], int | None]:
    """Return jobs of a batch by number, and the number after which the next page begins."""
    page_size(limit)
    batch = get(world, batch_id, owner=owner)
    found = world.route(owner=batch.owner, id=batch.id).store.read(
        lambda tx: tx.batches.jobs(batch.number, state=state, limit=limit + 1, after=after)
    )
    return found[:limit], found[limit - 1] if len(found) > limit else None


# -- cancelling --------------------------------------------------------------------------------------------------


def cancel(world: World, batch_id: str, *, actor: str = SYSTEM, reason: str = "", owner: str | None = None) -> Batch:
    """Cancel every job of a batch that has not ended: waiting ones at once, running ones are asked to stop.

    That it is being cancelled is stored first; if this process dies, a chore of the workers goes on.
    """
    batch = get(world, batch_id, owner=owner)
    if batch.state != "open":
        raise NotAllowed("batch_has_ended", id=batch.id, state=batch.state)
    now = world.clock.now()

    def write(tx: Tx) -> None:
        tx.batches.cancel(batch.number, reason or "cancelled")
        tx.audit.append(_entry(batch, "cancel_batch", actor, now, reason=reason, before={"open": batch.open}))

    world.route(owner=batch.owner, id=batch.id).store.transact(write)
    cancel_members(world, batch, actor=actor, reason=reason)
    return get(world, batch_id, owner=owner)


def cancel_members(world: World, batch: Batch, *, actor: str, reason: str) -> int:
    """Cancel the open jobs of a batch, each in a transaction of its own; return how many there were."""
    done = 0
    after: int | None = 0
    while after is not None:
        numbers, after = members(world, batch.id, state="open", limit=AT_ONCE, after=after, owner=batch.owner)
        for number in numbers:
            try:
                cancel_job(world, job_id(number), actor=actor, reason=reason or f"{batch.id} was cancelled")
                done += 1
            except (Conflict, NotAllowed, NotFound):  # it has ended, or changes now: the chore looks again
                continue
    return done


def go_on_cancelling(world: World) -> int:
    """Cancel what is left of batches whose cancelling process died; return how many jobs there were."""
    left = world.route().store.read(lambda tx: tx.batches.being_cancelled(limit=MANY))
    return sum(cancel_members(world, each, actor=SYSTEM, reason=each.cancel_reason or "") for each in left)


def mend(world: World) -> int:
    """End batches whose jobs have all ended, and go on with cancels: a safety net; return how much there was to do."""
    return world.route().store.mend_batches(now=world.clock.now(), limit=MANY) + go_on_cancelling(world)


def _entry(
    batch: Batch,
    verb: str,
    actor: str,
    now: datetime,
    *,
    reason: str = "",
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> Entry:
    return Entry(
        at=now, actor=actor, verb=verb, object_type="batch", object_id=batch.id, owner=batch.owner,
        reason=reason or None, before=before or {}, after=after or {},
    )  # fmt: skip
