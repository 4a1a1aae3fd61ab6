"""Jobs that callers ask for by naming an object, and a person's verbs on the job of a stored one.

A stored object has one job. Asking for an action on it (document 000's ``POST /scheduler/jobs``) moves that job, so
does a reschedule; cancelling or reviving it would leave the object without a job or with two, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from horae.actions.governance.entries import planned_entry
from horae.actions.governance.object_writer import By, Change, ObjectWriter
from horae.actions.governance.plans import ask_job
from horae.actions.jobs.jobs import store_jobs
from horae.actions.jobs.requests import Enqueued, make_enqueued
from horae.core.governance.objects import GovernedObject
from horae.core.governance.transitions import walk
from horae.core.jobs.job import GOVERN, Job, NewJob
from horae.errors import InvalidInput, NotAllowed
from horae.ports.store import Tx
from horae.ports.world import World

Name = tuple[str, str, str]


def enqueue_about_objects(
    world: World, new: Sequence[NewJob], now: datetime, *, connection: Any, tx: Tx | None, actor: str
) -> list[Enqueued]:
    """Store jobs that name objects; for one whose object is stored, its one job is moved and returned."""
    names = {_name(job) for job in new if job.handler == GOVERN}
    store = world.route(owner=new[0].owner).store
    stored = tx.objects.by_name(names) if tx is not None else store.read(lambda reading: reading.objects.by_name(names))
    noted = [_with_entry(job, stored, actor, now) for job in new]
    if not stored:
        return store_jobs(world, noted, now, connection)
    if tx is not None:
        return _ask(world, tx, noted, set(stored), actor, now)
    if connection is not None:
        raise InvalidInput("object_on_connection", ids=sorted(name[2] for name in stored))
    return store.transact(lambda writing: _ask(world, writing, noted, set(stored), actor, now))


def _name(job: NewJob | Job) -> Name:
    return job.owner, job.object_type or "", job.object_id or ""


def _with_entry(job: NewJob, stored: dict[Name, GovernedObject], actor: str, now: datetime) -> NewJob:
    is_plain = job.object_type is None or (job.handler == GOVERN and _name(job) in stored)
    return job if is_plain else replace(job, entry=planned_entry(job, actor, now))


def _ask(world: World, tx: Tx, new: Sequence[NewJob], names: set[Name], actor: str, now: datetime) -> list[Enqueued]:
    found = tx.objects.by_name(names)
    tx.objects.lock(each.number for each in found.values())
    made: list[Enqueued | None] = [None] * len(new)
    plain = []
    for index, job in enumerate(new):
        if job.handler == GOVERN and _name(job) in found:
            made[index] = _asked(world, tx, job, actor, now)
        else:
            plain.append(index)
    for index, where in zip(plain, tx.jobs.insert([new[index] for index in plain], now), strict=True):
        job = new[index]
        made[index] = make_enqueued(where.number, where.deduplicated, job.run_at < now, job, now)
    tx.wake({job.queue for job in new})
    return [each for each in made if each is not None]


def _asked(world: World, tx: Tx, asked: NewJob, actor: str, now: datetime) -> Enqueued:
    """Move the job of a locked object; the same request again changes nothing."""
    (it,) = tx.objects.by_name([_name(asked)]).values()  # again: an earlier request of the same call may have moved it
    wanted = (asked.action, max(asked.run_at, now), asked.queue)
    if (it.asked_action, it.asked_at, it.queue) == wanted and it.job is not None:
        known = tx.jobs.get(it.job)
        if known is not None:
            return make_enqueued(known.number, True, False, known, now)
    job = ask_job(world, tx, it, asked.action or "", asked.run_at, By(actor), asked.queue)
    return make_enqueued(job.number, False, asked.run_at < now, job, now)


# -- a person's verbs --------------------------------------------------------------------------------------------------


def object_of(tx: Tx, job: Job) -> GovernedObject | None:
    """Return the stored object that a job is about, locked, before the job itself is."""
    if job.object_type is None or job.handler != GOVERN:
        return None
    found = tx.objects.by_name([_name(job)]).get(_name(job))
    return None if found is None else tx.objects.lock([found.number])[found.number]


def refuse_job_of(it: GovernedObject | None, job: Job) -> None:
    """Refuse to cancel or revive the job of a stored object, with what to do instead."""
    if it is not None and not it.is_final:
        raise NotAllowed("job_of_object", id=job.id, kind=it.kind, object_id=it.id)


def move_job_of(world: World, tx: Tx, it: GovernedObject, job: Job, at: datetime, by: By) -> None:
    """Move the waiting job of an object, and the object's next action with it."""
    writer = ObjectWriter(world, tx, by, world.clock.now())
    done = walk(it, (), writer.policy(it), writer.now, asked_action=job.action, asked_at=max(at, writer.now))
    writer.save(Change(it, done, "asked", (f"job:{job.id}",), "scheduler_job", {"action": job.action}))
