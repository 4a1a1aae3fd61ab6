"""The verbs of the job queue. Each is one transaction; library, HTTP, worker and command line all enter here."""

# size: every verb on jobs that exist and every list of them, because they share what is in a caller's reach

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from horae.actions.consistency import one_moment
from horae.actions.jobs import lists
from horae.actions.jobs.leases import with_wall_lease
from horae.actions.jobs.requests import Enqueued, Request, make_enqueued, new_jobs
from horae.core.audit.entries import Entry
from horae.core.cluster.shard_keys import shard_key_in, without_shard
from horae.core.cursors import page_size
from horae.core.jobs.batches import AlikeJobs, lone_job
from horae.core.jobs.job import (
    JOB,
    LIVE,
    SYSTEM,
    Filter,
    Job,
    NewJob,
    Priority,
    Run,
    band_of,
    job_number,
)
from horae.core.jobs.machinery import MACHINERY, refuse_own
from horae.core.jobs.masking import unmask
from horae.core.jobs.parents import MOST_BYTES, ParentResult
from horae.core.time.instants import aware, instant, iso
from horae.errors import Conflict, InvalidInput, NotAllowed, NotFound, StoreError
from horae.ports.jobs import PlacedAlike

if TYPE_CHECKING:
    from horae.core.governance.objects import GovernedObject
    from horae.core.statistics import Statistic
    from horae.ports.jobs import End, Placed
    from horae.ports.store import Tx
    from horae.ports.world import World

T = TypeVar("T")
WINDOW = timedelta(days=1)
CHILDREN = 200  # dealt with in one transaction, where their parents have ended


# -- enqueue -----------------------------------------------------------------------------------------------------


def enqueue(
    world: World, request: Request, *, connection: Any = None, tx: Tx | None = None, actor: str = SYSTEM
) -> Enqueued:
    """Store one job; durable when this returns. With *connection* it joins the caller's own transaction."""
    return enqueue_many(world, [request], connection=connection, tx=tx, actor=actor)[0]


def enqueue_many(
    world: World, requests: Iterable[Request], *, connection: Any = None, tx: Tx | None = None, actor: str = SYSTEM
) -> list[Enqueued]:
    """Store many jobs in one transaction: all of them, or, when one is refused, none.

    It joins the transaction of a verb, *tx*, or of a caller, *connection*. A job that names a stored object is the one
    that the object has; *actor* is who asks for it.
    """
    now = world.clock.now()
    new = new_jobs(world, requests, now)
    if not new:
        return []
    joined = connection if tx is None else tx.connection
    if joined is None and (alone := lone_job(new)) is not None:
        number = world.route_job(alone).store.insert(new, now=now)[0].number
        return [make_enqueued(number, False, alone.run_at < now, alone, now)]
    if type(new) is not AlikeJobs and any(job.object_type is not None for job in new):
        from horae.actions.governance.object_jobs import enqueue_about_objects

        return enqueue_about_objects(world, new, now, connection=joined, tx=tx, actor=actor)
    if tx is not None and world.cluster is not None:  # in the shard of that transaction
        return answer_placed(world, new, tx.jobs.insert(list(new), now), now, joined)
    return store_jobs(world, new, now, joined)


def store_jobs(world: World, new: Sequence[NewJob], now: datetime, connection: Any = None) -> list[Enqueued]:
    """Store checked jobs, in a transaction of their own or on a connection."""
    if world.cluster is not None:
        from horae.actions.jobs.spread import store_joined, store_spread

        return store_spread(world, new, now) if connection is None else store_joined(world, new, now, connection)
    joins, store = connection is not None, world.route(owner=new[0].owner, key=new[0].key).store
    placed = store.insert_on(connection, new, now=now) if joins else store.insert(new, now=now)
    return answer_placed(world, new, placed, now, connection)


def answer_placed(
    world: World, new: Sequence[NewJob], placed: Sequence[Placed], now: datetime, connection: Any = None
) -> list[Enqueued]:
    """Return the answers to requests that were stored; of one whose name was known, the job that has it."""
    if type(new) is AlikeJobs:
        late = new.shared.run_at < now
        numbers = placed.numbers if isinstance(placed, PlacedAlike) else [where.number for where in placed]
        same = map(repeat, (False, late, new.shared, now))
        return list(map(make_enqueued, numbers, *same, new.payloads))
    waiting = [where.number for row, where in zip(new, placed, strict=True) if row.after]
    known = _known_jobs(world, placed, connection, waiting)
    return [
        _gathered(row, where, now)
        if where.run_at is not None
        else make_enqueued(where.number, True, False, known[where.number], now)
        if where.deduplicated and where.number in known
        else make_enqueued(
            where.number, where.deduplicated, row.run_at < now, known.get(where.number) or _with_key(row, where), now
        )
        for row, where in zip(new, placed, strict=True)
    ]


def _gathered(row: NewJob, where: Placed, now: datetime) -> Enqueued:
    """Return the job that a call has joined or opened, as of this call."""
    stored = replace(row, run_at=where.run_at or row.run_at)
    return Enqueued(where.number, where.deduplicated, False, stored, now, gathered=where.gathered)


def _with_key(row: NewJob, where: Placed) -> NewJob:
    return row if where.key is None else replace(row, key=where.key)


def _known_jobs(
    world: World, placed: Iterable[Placed | Enqueued], connection: Any = None, waiting: Iterable[int] = ()
) -> dict[int, Job]:
    """Return the jobs behind known keys that still exist (a key is kept longer than its job), and those that wait for
    others: one whose parents have ended runs or is cancelled at once.

    On a caller's connection they are not read, because the caller decides what its snapshot shows.
    """
    known = (where for where in placed if where.deduplicated and not where.gathered)
    numbers = {where.number for where in known}.union(waiting)
    if not numbers or connection is not None:
        return {}
    found = world.route().store.read(lambda tx: [tx.jobs.get(number) for number in sorted(numbers)])
    return {job.number: job for job in found if job is not None}


def with_known(world: World, placed: Sequence[Enqueued]) -> list[Enqueued]:
    """Add the jobs behind known keys to what was enqueued on a connection, after its commit."""
    waiting = [each.number for each in placed if isinstance(each.stored, NewJob) and each.stored.after]
    known = _known_jobs(world, placed, waiting=waiting)
    return [replace(each, stored=known.get(each.number, each.stored)) for each in placed]


# -- queries and acts by hand ------------------------------------------------------------------------------------------


def get(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Job:
    """Return one job, live or finished; with *owner* only one of that tenant, with *queues* only one of those."""
    number = job_number(job_id)
    if world.cluster is not None:
        found = _get_in_cluster(world, number, job_id, owner)
    else:
        found = world.route(owner=owner, id=job_id).store.read(lambda tx: tx.jobs.get(number))
    return with_wall_lease(world, _in_reach(found, job_id, owner, queues))


def _get_in_cluster(world: World, number: int, job_id: str, owner: str | None) -> Job | None:
    """Look in the shard of a job, then where it may still wait to be delivered, then where it may have ended."""
    from horae.actions.jobs.on_the_way import find_on_the_way

    store = world.route(owner=owner, id=job_id).store
    try:
        found = store.read(lambda tx: tx.jobs.get(number))
    except StoreError:  # a shard that is away has nothing of what is on the way to it
        sent = find_on_the_way(world, number)
        if sent is None:
            raise
        return sent
    found = found or find_on_the_way(world, number)
    found = found or store.read(lambda tx: tx.jobs.get(number))  # it may have arrived between the two looks
    if found is None:  # it may have ended where its shard was before
        elsewhere = (shard.route().store.read(lambda tx: tx.jobs.get(number)) for shard in world.databases())
        found = next((job for job in elsewhere if job is not None), None)
    return found


def is_in_reach(job: Job, owner: str | None, queues: Collection[str]) -> bool:
    """Return whether a caller limited to a tenant and to queues sees the job; None and () set no limit."""
    return (owner is None or job.owner == owner) and (not queues or job.queue in queues)


def _in_reach(job: Job | None, job_id: str, owner: str | None, queues: Collection[str]) -> Job:
    if job is None or not is_in_reach(job, owner, queues):
        raise NotFound("job_unknown", id=job_id)
    return job


@one_moment
def runs(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> list[Run]:
    """Return every attempt at a job, the oldest first, the one under way last."""
    job = get(world, job_id, owner=owner, queues=queues)
    if world.cluster is not None:  # attempts that ended before a move of the shard stay where they ended
        found = [
            run for shard in world.databases() for run in shard.route().store.read(lambda tx: tx.jobs.runs(job.number))
        ]
        return sorted(found, key=lambda run: run.token)
    return world.route(owner=owner, id=job_id).store.read(lambda tx: tx.jobs.runs(job.number))


def find(world: World, wanted: Filter | None = None, *, limit: int = 50, before: str | None = None) -> list[Job]:
    """Return jobs, the newest first; *before* is the last id of the previous page."""
    page_size(limit)
    wanted = wanted or Filter()
    check_states(wanted)
    number = None if before is None else job_number(before)
    found, _ = world.route(owner=wanted.owner, key=wanted.key).store.read(
        lambda tx: lists.look(tx, wanted, limit, number, None)
    )
    return [with_wall_lease(world, job) for job in found]


def find_page(
    world: World, wanted: Filter, *, limit: int = 50, before: str | End | None = None
) -> tuple[list[Job], int | End | None]:
    """Return a page of jobs, the newest first, and the number before which the next begins; None at the end.

    Where a filter names a time of end and no label, those that ended last come first, and the next page begins before
    an end. Where neither an index nor a label leads to what the filter wants, a page looks back over a bounded number
    of rows; it may then be short, or empty, although older jobs fit.
    """
    page_size(limit)
    check_states(wanted)

    def read(tx: Tx) -> tuple[list[Job], int | End | None]:
        if isinstance(before, str):
            return lists.page(tx, wanted, limit, job_number(before))
        if before is not None or lists.is_by_end(wanted):
            return lists.page_by_end(tx, wanted, limit, before)
        return lists.page(tx, wanted, limit, None)

    found, further = world.route(owner=wanted.owner, key=wanted.key).store.read(read)
    return [with_wall_lease(world, job) for job in found], further


def check_states(wanted: Filter) -> None:
    unknown = set(wanted.states) - set(JOB.states)
    if unknown:
        raise InvalidInput("choice_unknown", name="state", value=sorted(unknown)[0], choices=list(JOB.states))


def counts(
    world: World, *, queue: str | None = None, owner: str | None = None, machinery: bool = False
) -> dict[str, dict[str, int]]:
    """Count jobs by queue and state; Horae's own only with *machinery*, or where *queue* names their queue.

    Finished ones are counted over all time, from the statistics, and from the history what they do not hold yet. Of one
    tenant's, those among its newest 200 jobs are counted, because the statistics do not cross owners with queues. Live
    jobs are counted by a chore while there are many, so that their number may be a minute old.
    """
    now = world.clock.now()

    def read(tx: Tx) -> dict[tuple[str, str], int]:
        if owner is not None:
            return tx.jobs.counts(queue, owner, machinery, now=now)
        from horae.actions.statistics import count_finished

        rolled, finished = count_finished(tx)
        found = tx.jobs.counts(queue, owner, machinery, rolled, now=now)
        for (name, state), count in finished.items():
            if name == queue if queue is not None else machinery or name != MACHINERY:
                found[name, state] = found.get((name, state), 0) + count
        return found

    numbers: dict[str, dict[str, int]] = {}
    for (name_, state), count in world.route(owner=owner).store.read(read).items():
        numbers.setdefault(name_, dict.fromkeys(JOB.states, 0))[state] = count
    return numbers


def metrics(world: World, *, window: timedelta = WINDOW, owner: str | None = None) -> dict[str, float]:
    """Return the five figures of S0-29 to S0-33; rates cover the last *window*."""
    now = world.clock.now()
    since = now - window

    def read(tx: Tx) -> dict[str, float]:
        from horae.actions.statistics import count_window

        rolled, counted = count_window(tx, since, owner)
        raw = tx.jobs.metrics(now=now, since=since, owner=owner, ended_since=max(since, rolled))
        return five_figures(raw, counted, now)

    return world.route(owner=owner).store.read(read)


def five_figures(raw: Mapping[str, Any], counted: Statistic, now: datetime) -> dict[str, float]:
    """Return the figures of S0-29 to S0-33 from what the tables say and what the statistics have counted."""
    succeeded = raw["succeeded"] + counted.succeeded
    ended = succeeded + raw["dead_recently"] + counted.dead  # a cancelled job neither succeeded nor failed
    seen = raw["finished"] + counted.succeeded + counted.cancelled + raw["live"]
    retried = raw["finished_after_retry"] + counted.recovered + raw["live_after_retry"]
    oldest = raw["oldest_due"]
    return {
        "jobs_due_count": raw["due"],
        "jobs_lag_seconds": 0.0 if oldest is None else max(0.0, (now - instant(oldest)).total_seconds()),
        "job_success_rate": succeeded / ended if ended else 1.0,
        "job_retry_rate": retried / seen if seen else 0.0,
        "dead_letter_count": raw["dead"],
    }


def cancel(
    world: World,
    job_id: str,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """End a waiting job at once; ask the worker of a running one to stop it at the next safe moment."""

    def write(tx: Tx) -> Job:
        job, it = _lock_with_object(tx, job_id, owner, queues)
        JOB.after(job.state, "cancelled")
        _refuse_job_of(it, job)
        now = world.clock.now()
        if job.state == "running":
            _one_row(tx.jobs.ask_to_cancel(job, reason=truncate(reason) or f"asked by {actor}"), job)
        else:
            from horae.actions.jobs.expectations import drop_expectation

            _one_row(tx.jobs.end_waiting(job, reason=truncate(reason) or f"by {actor}", now=now), job)
            drop_expectation(tx, job, "cancelled", now)
        tx.audit.append(entry_of(world, "cancel", job, actor, reason))
        return job

    job = _act(world, job_id, owner, queues, write)
    if job.state == "running":
        world.route(owner=owner, id=job_id).store.wake([job.queue])
    elif job.has_dependents:  # jobs or a schedule may wait for its end
        world.route(owner=owner, id=job_id).store.wake(["*"])
    return get(world, job_id)


def revive(
    world: World,
    job_id: str,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """Make a dead job due now with all its attempts; jobs that were cancelled because it died wait for it again."""

    def write(tx: Tx) -> Job:
        job, it = _lock_with_object(tx, job_id, owner, queues)
        JOB.after(job.state, "revived")
        _refuse_job_of(it, job)
        now = world.clock.now()
        if not tx.jobs.requeue(job, run_at=now, attempt=0, band=None, now=now):
            raise Conflict("unique_name_taken", id=job.id, unique=job.unique)
        tx.audit.append(entry_of(world, "revive", job, actor, reason))
        return job

    job = _act(world, job_id, owner, queues, write)
    world.route(owner=owner, id=job_id).store.wake([job.queue])
    return get(world, job_id)


def reschedule(
    world: World,
    job_id: str,
    *,
    run_at: datetime | None = None,
    priority: Priority | None = None,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """Move a waiting job to another time or band; its planned time and its key stay what they were."""

    def write(tx: Tx) -> Job:
        job, it = _lock_with_object(tx, job_id, owner, queues)
        JOB.after(job.state, "rescheduled")
        when = job.run_at if run_at is None else aware(run_at, "run_at")
        if it is not None and it.job == job.number:
            _move_job_of(world, tx, it, job, when, priority, actor, reason)
            return job
        band = None if priority is None else band_of(priority)
        now = world.clock.now()
        _one_row(tx.jobs.requeue(job, run_at=when, attempt=job.attempt, band=band, now=now), job)
        if run_at is not None:
            from horae.actions.jobs.expectations import move_expectation

            move_expectation(tx, job, when, now)
        tx.audit.append(entry_of(world, "reschedule", job, actor, reason, run_at=iso(when), priority=priority))
        return job

    job = _act(world, job_id, owner, queues, write)
    world.route(owner=owner, id=job_id).store.wake([job.queue])
    return get(world, job_id)


def rerun(
    world: World,
    job_id: str,
    *,
    payload: Any = None,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Enqueued:
    """Enqueue a copy of a job that has ended, due now; *payload* replaces its own where given."""

    def write(tx: Tx) -> Enqueued:
        job = _in_reach(tx.jobs.get(job_number(job_id)), job_id, owner, queues)
        refuse_own(job)
        if job.state in LIVE:
            raise NotAllowed("job_not_ended", id=job.id, state=job.state)
        from horae.actions.jobs.expectations import drop_expectation, hand_over

        now = world.clock.now()
        copy = replace(_copy_of(job, payload, now), expect=hand_over(tx, job))
        made = enqueue(world, copy, tx=tx, actor=actor)
        drop_expectation(tx, job, f"run again as {made.id}", now)
        tx.audit.append(entry_of(world, "rerun", job, actor, reason, made=made.id))
        return made

    made = _act(world, job_id, owner, queues, write)
    world.route(owner=owner, id=job_id).store.wake([made.job.queue])
    return made


def _copy_of(job: Job, payload: Any, now: datetime) -> Request:
    return Request(
        job.handler,
        job.payload if payload is None else unmask(payload, job.payload),
        queue=job.queue,
        priority=job.priority,
        planned_at=now,  # so that a governed job gets a key of its own
        owner=job.owner,
        retry=replace(job.retry, attempts=job.max_attempts),
        timeout=job.timeout,
        concurrency_key=without_shard(job.concurrency_key),
        shard_key=shard_key_in(job.concurrency_key),
        tags=job.tags,
        object_type=job.object_type,
        object_id=job.object_id,
        action=job.action,
        rerun_of=job.id,
        budget=None if job.budget is None else job.budget.reference,
        cost=None if job.budget is None else job.budget.cost,
    )


def each(world: World, verb: Callable[..., Job], job_ids: Iterable[str], **options: Any) -> dict[str, str]:
    """Apply a verb to many jobs; return "ok" or the error by id. One refusal does not stop the others."""
    results: dict[str, str] = {}
    for job_id in job_ids:
        try:
            verb(world, job_id, **options)
            results[job_id] = "ok"
        except (NotFound, NotAllowed, Conflict) as problem:
            results[job_id] = str(problem)
    return results


def parent_results(
    world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()
) -> tuple[ParentResult, ...]:
    """Return the jobs that one was enqueued after, in that order, with what they returned; bounded, one statement."""
    number = job_number(job_id)

    def read(tx: Tx) -> tuple[list[ParentResult], int]:
        if owner is not None or queues:
            _in_reach(tx.jobs.get(number), job_id, owner, queues)
        return tx.jobs.parent_results(number, most_bytes=MOST_BYTES)

    found, size = world.route(owner=owner, id=job_id).store.read(read)
    if size > MOST_BYTES:
        raise InvalidInput("parents_too_large", id=job_id, size=size, most=MOST_BYTES)
    return tuple(found)


def settle_children(world: World, *, limit: int = CHILDREN) -> int:
    """Settle the children of jobs that died, were cancelled or were revived; return how many were left to settle.

    The transaction that ends a job settles a hundred; this does the rest, and what a lost transaction left. Each
    transaction is bounded; any number of processes may do it at once.
    """
    total = 0
    while done := world.route().store.settle_children(now=world.clock.now(), limit=limit):
        total += done
    return total


def _act(world: World, job_id: str, owner: str | None, queues: Collection[str], write: Callable[[Tx], T]) -> T:
    """Do something to a job where it is; one that has not arrived in its shard is refused for now."""
    try:
        return world.route(owner=owner, id=job_id).store.transact(write)
    except NotFound as missing:
        if world.cluster is None or missing.reason != "job_unknown":
            raise
    from horae.actions.jobs.on_the_way import refuse_on_the_way

    refuse_on_the_way(world, job_id, owner, queues)
    return world.route(owner=owner, id=job_id).store.transact(write)  # it may have arrived between the two looks


def _lock_with_object(
    tx: Tx, job_id: str, owner: str | None, queues: Collection[str]
) -> tuple[Job, GovernedObject | None]:
    """Lock a job, and before it the stored object that it is about."""
    known = _in_reach(tx.jobs.get(job_number(job_id)), job_id, owner, queues)
    it = None
    if known.object_type is not None:
        from horae.actions.governance.object_jobs import object_of

        it = object_of(tx, known)
    return _lock_job(tx, job_id, owner, queues), it


def _refuse_job_of(it: GovernedObject | None, job: Job) -> None:
    if it is not None:
        from horae.actions.governance.object_jobs import refuse_job_of

        refuse_job_of(it, job)


def _move_job_of(
    world: World, tx: Tx, it: GovernedObject, job: Job, at: datetime, priority: str | None, actor: str, reason: str
) -> None:
    from horae.actions.governance.object_jobs import move_job_of
    from horae.actions.governance.object_writer import By

    if priority is not None:
        raise NotAllowed("object_job_priority", id=job.id, risk=it.risk)
    move_job_of(world, tx, it, job, at, By(actor, reason, job=job.id))


def _lock_job(tx: Tx, job_id: str, owner: str | None, queues: Collection[str]) -> Job:
    number = job_number(job_id)
    job = _in_reach(tx.jobs.lock(number) or tx.jobs.get(number), job_id, owner, queues)
    refuse_own(job)
    return job


def _one_row(changed: bool, job: Job) -> None:
    if not changed:
        raise Conflict("job_changed", id=job.id)


def entry_of(world: World, verb: str, job: Job, actor: str, reason: str, **after: Any) -> Entry:
    """Return the audit entry of an act by hand on a job."""
    return Entry(
        at=world.clock.now(),
        actor=actor,
        verb=verb,
        object_type="job",
        object_id=job.id,
        owner=job.owner,
        reason=truncate(reason) or None,
        before={"state": job.state, "run_at": iso(job.run_at), "attempt": job.attempt, "token": job.token},
        after={key: value for key, value in after.items() if value is not None},
    )


def truncate(error: str, limit: int = 20_000) -> str:
    """Return an error as text that every database can store, cut to *limit* characters."""
    clean = error.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 20] + " … (cut)"
