"""The verbs of the job queue. Each is one transaction; library, HTTP, worker and command line all enter here."""

# size: every verb of one room behind one door

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.consistency import one_moment
from horae.actions.jobs.leases import with_wall_lease
from horae.core.audit.entries import Entry
from horae.core.cursors import page_size
from horae.core.jobs.job import (
    JOB,
    LIVE,
    OBJECT_ACTIONS,
    OBJECT_TYPES,
    ON_PARENT_DEAD,
    PRIORITIES,
    SYSTEM,
    Filter,
    Job,
    NewJob,
    OnParentDead,
    Priority,
    Run,
    State,
    band_of,
    check_run_at,
    default_key,
    job_number,
    make_new_job,
    request_hash,
    typed_key,
)
from horae.core.jobs.machinery import queue_name, refuse_own, unique_name
from horae.core.jobs.payloads import decode, encode, label, name
from horae.core.jobs.retry import DEFAULT_RETRY, Retry, time_limit
from horae.core.outgoing.webhooks import refuse_credentials
from horae.core.time.instants import aware, instant, iso, later
from horae.core.values import swift
from horae.errors import Conflict, InvalidInput, NotAllowed, NotFound
from horae.ports import Placed, Tx, World

DEFAULT_QUEUE = "default"
MAX_TAGS = 50
MAX_RUNNING = 1_000_000
WINDOW = timedelta(days=1)
ROOTED = 250  # so long may the key of a call be for its jobs' keys to begin with it
CHILDREN = 200  # dealt with in one transaction, where their parents have ended


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks to be run, and when. Everything but the handler has a default."""

    handler: str
    payload: Any = None
    queue: str = DEFAULT_QUEUE
    priority: Priority = "medium"
    run_at: datetime | None = None
    delay: timedelta | None = None
    planned_at: datetime | None = None
    owner: str = SYSTEM
    retry: Retry = DEFAULT_RETRY
    timeout: timedelta | None = None
    key: str | None = None
    unique: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    tags: tuple[str, ...] = ()
    trace_id: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    action: str | None = None
    after: tuple[str, ...] = ()  # the jobs that must succeed first
    on_parent_dead: OnParentDead = "cancel"  # what to do when one of those dies or is cancelled
    checkpoint: Any = None  # where an earlier piece of work left off
    rerun_of: str | None = None  # the job that is run again as this one
    strict: bool = False
    part_of: str = ""  # the call that its key stands for, where that had more than this in it


make_request = swift(Request)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job that now stands for a request; ``deduplicated`` when it was there before."""

    number: int
    deduplicated: bool
    late: bool
    stored: NewJob | Job = field(repr=False, compare=False)
    stored_at: datetime = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        return f"job_{self.number}"

    @property
    def state(self) -> State:
        return self.stored.state if isinstance(self.stored, Job) else "queued"

    @property
    def run_at(self) -> datetime:
        return self.stored.run_at

    @property
    def job(self) -> Job:
        """The whole job; made when asked for, because whoever enqueues ten thousand wants none of them."""
        return self.stored if isinstance(self.stored, Job) else _as_stored(self.stored, self.number, self.stored_at)


_make_enqueued = swift(Enqueued)


# -- enqueue -----------------------------------------------------------------------------------------------------


def enqueue(world: World, request: Request, *, connection: Any = None) -> Enqueued:
    """Store one job; durable when this returns. With *connection* it joins the caller's own transaction."""
    return enqueue_many(world, [request], connection=connection)[0]


def enqueue_many(world: World, requests: Iterable[Request], *, connection: Any = None) -> list[Enqueued]:
    """Store many jobs in one transaction: all of them, or, when one is refused, none."""
    now = world.clock.now()
    new = [new_job(world, request, now) for request in requests]
    if not new:
        return []
    joins, store = connection is not None, world.route(owner=new[0].owner, key=new[0].key).store
    placed = store.insert_on(connection, new, now=now) if joins else store.insert(new, now=now)
    waiting = [where.number for row, where in zip(new, placed, strict=True) if row.after]
    known = _known_jobs(world, placed, connection, waiting)
    return [
        _make_enqueued(where.number, True, False, known[where.number], now)
        if where.deduplicated and where.number in known
        else _make_enqueued(
            where.number, where.deduplicated, row.run_at < now, known.get(where.number) or _named(row, where), now
        )
        for row, where in zip(new, placed, strict=True)
    ]


def keyed_by_call(requests: Sequence[Request], key: str) -> list[Request]:
    """Give the jobs of one call keys made of the call's own *key*, which stands for exactly these jobs in this order.

    A job that has a key keeps it.
    """
    call = request_hash({"keys": [each.key for each in requests]})
    root = label(key, "key")
    root = root if len(root) <= ROOTED else hashlib.sha256(root.encode()).hexdigest()
    return [
        replace(each, key=f"{root}#{place}", part_of=call) if each.key is None else each
        for place, each in enumerate(requests)
    ]


def _named(row: NewJob, where: Placed) -> NewJob:
    return row if where.key is None else replace(row, key=where.key)


def _known_jobs(
    world: World, placed: Iterable[Placed | Enqueued], connection: Any = None, waiting: Iterable[int] = ()
) -> dict[int, Job]:
    """The jobs behind known keys that are still there (a key is kept longer than its job), and those that wait for
    others: one whose parents have ended runs or is cancelled at once.

    On a caller's connection they are not read: its snapshot is the caller's business.
    """
    numbers = {where.number for where in placed if where.deduplicated}.union(waiting)
    if not numbers or connection is not None:
        return {}
    found = world.route().store.read(lambda tx: [tx.jobs.get(number) for number in sorted(numbers)])
    return {job.number: job for job in found if job is not None}


def with_known(world: World, placed: Sequence[Enqueued]) -> list[Enqueued]:
    """The same, with the jobs behind known keys: for whoever enqueued on a connection, after its commit."""
    waiting = [each.number for each in placed if isinstance(each.stored, NewJob) and each.stored.after]
    known = _known_jobs(world, placed, waiting=waiting)
    return [replace(each, stored=known.get(each.number, each.stored)) for each in placed]


def new_job(world: World, request: Request, now: datetime) -> NewJob:
    run_at = _run_at(request, now)
    check_run_at(run_at, now=now, strict=request.strict)
    planned_at = run_at if request.planned_at is None else aware(request.planned_at, "planned_at")
    if len(request.tags) > MAX_TAGS:
        raise InvalidInput("too_many_tags", count=len(request.tags), most=MAX_TAGS)
    if not 1 <= request.concurrency_limit <= MAX_RUNNING:
        raise InvalidInput(
            "out_of_range", name="concurrency_limit", value=request.concurrency_limit, least=1, most=MAX_RUNNING
        )
    if not isinstance(request.retry, Retry):
        raise InvalidInput("retry_unreadable", value=repr(request.retry))
    refuse_credentials(request.handler, request.payload)
    payload = encode({} if request.payload is None else request.payload, max_bytes=world.max_payload_bytes)
    key, typed = _key(request, planned_at)
    needs = request.after
    if request.on_parent_dead not in ON_PARENT_DEAD:
        raise InvalidInput(
            "choice_unknown", name="on_parent_dead", value=request.on_parent_dead, choices=list(ON_PARENT_DEAD)
        )
    return make_new_job(  # by position: with names it took twice as long
        name(request.handler, "handler", 200),
        payload,
        queue_name(request.queue),
        band_of(request.priority),
        run_at,
        planned_at,
        label(request.owner, "owner"),
        request.retry.attempts,
        None if request.retry is DEFAULT_RETRY else _policy(request.retry),
        None if request.timeout is None else time_limit(request.timeout),
        key,
        None if request.unique is None else unique_name(request.unique),
        _optional(request.concurrency_key, "concurrency key", 250),
        request.concurrency_limit,
        encode([label(tag, "tag", 100) for tag in request.tags]) if request.tags else None,
        _optional(_trace(world, request), "trace id", 64),
        request.object_type,
        request.object_id,
        request.action,
        "needs" if needs else "",
        ", ".join(needs)[:255] if needs else None,
        checkpoint=None if request.checkpoint is None else encode(request.checkpoint, "checkpoint"),
        after=tuple(job_number(needed) for needed in needs) if needs else (),
        request_hash="" if key is None else _hash(request, payload),
        on_parent_dead=request.on_parent_dead,
        typed_key=typed,
        rerun_of=None if request.rerun_of is None else job_number(request.rerun_of),
    )


def _trace(world: World, request: Request) -> str | None:
    """What the caller says, or what is under way where somebody traces."""
    return request.trace_id if request.trace_id or world.tracing is None else world.tracing.current()


def _policy(retry: Retry) -> str | None:
    return None if retry == DEFAULT_RETRY else encode(retry.as_json())


def _optional(value: str | None, what: str, max_length: int = 255) -> str | None:
    return None if value is None else label(value, what, max_length)


def _run_at(request: Request, now: datetime) -> datetime:
    if request.run_at is not None and request.delay is not None:
        raise InvalidInput("run_at_and_delay")
    if request.delay is not None:
        return later(now, request.delay)
    return now if request.run_at is None else aware(request.run_at, "run_at")


def _key(request: Request, planned_at: datetime) -> tuple[str | None, str | None]:
    """The caller's own key, or for a governed job the one that its object, action and planned time make (S0-6).

    The second is the typed form of such a default key.
    """
    if request.object_type is None and request.object_id is None and request.action is None:
        return _optional(request.key, "key"), None
    if request.object_type not in OBJECT_TYPES:
        raise InvalidInput("choice_unknown", name="object_type", value=request.object_type, choices=list(OBJECT_TYPES))
    if request.action not in OBJECT_ACTIONS:
        raise InvalidInput("choice_unknown", name="action", value=request.action, choices=list(OBJECT_ACTIONS))
    object_id = label(request.object_id or "", "object_id", 150)
    if request.key is not None:
        return label(request.key, "key"), None
    default = default_key(object_id, request.action, planned_at)
    return default, typed_key(request.object_type, default)


def _hash(request: Request, payload: str) -> str:
    """What makes two requests the same: everything asked for, but not the moment of asking."""
    asked = {
        "handler": request.handler,
        "payload": decode(payload),  # as a value: the order in which its names were written does not matter
        "queue": request.queue,
        "priority": request.priority,
        "run_at": None if request.run_at is None else iso(request.run_at),
        "delay": request.delay,
        "object": [request.object_type, request.object_id, request.action],
    } | ({"part_of": request.part_of} if request.part_of else {})
    return request_hash(asked)


def _as_stored(row: NewJob, number: int, now: datetime) -> Job:
    """The job that was just written, without reading it back."""
    return Job(
        number=number,
        handler=row.handler,
        payload=decode(row.payload),
        state="queued",
        queue=row.queue,
        priority=PRIORITIES[row.band],
        run_at=row.run_at,
        planned_at=row.planned_at,
        created_at=now,
        owner=row.owner,
        max_attempts=row.max_attempts,
        retry=DEFAULT_RETRY if row.retry is None else Retry.from_json(decode(row.retry), row.max_attempts),
        timeout=row.timeout,
        key=row.key,
        unique=row.unique,
        concurrency_key=row.concurrency_key,
        held=row.held,
        held_for=row.held_for,
        tags=() if row.tags is None else tuple(decode(row.tags)),
        trace_id=row.trace_id,
        checkpoint=None if row.checkpoint is None else decode(row.checkpoint),
        object_type=row.object_type,
        object_id=row.object_id,
        action=row.action,
        rerun_of=row.rerun_of,
    )


# -- a person's side ---------------------------------------------------------------------------------------------


def get(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Job:
    """One job, live or finished; with *owner*, somebody else's does not exist, with *queues*, none of another queue."""
    number = job_number(job_id)
    job = world.route(owner=owner, id=job_id).store.read(lambda tx: tx.jobs.get(number))
    if job is None or not is_in_reach(job, owner, queues):
        raise NotFound("job_unknown", id=job_id)
    return with_wall_lease(world, job)


def is_in_reach(job: Job, owner: str | None, queues: Collection[str]) -> bool:
    """Whether whoever sees only this tenant's jobs, and only these queues, sees the job; none named means any."""
    return (owner is None or job.owner == owner) and (not queues or job.queue in queues)


@one_moment
def runs(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> list[Run]:
    """Every attempt at a job, the oldest first, the one under way last."""
    job = get(world, job_id, owner=owner, queues=queues)
    return world.route(owner=owner, id=job_id).store.read(lambda tx: tx.jobs.runs(job.number))


def find(world: World, wanted: Filter | None = None, *, limit: int = 50, before: str | None = None) -> list[Job]:
    """Jobs, newest first; *before* is the last id of the page before."""
    page_size(limit)
    wanted = wanted or Filter()
    unknown = set(wanted.states) - set(JOB.states)
    if unknown:
        raise InvalidInput("choice_unknown", name="state", value=sorted(unknown)[0], choices=list(JOB.states))
    number = None if before is None else job_number(before)
    found = world.route(owner=wanted.owner, key=wanted.key).store.read(
        lambda tx: tx.jobs.find(wanted, limit=limit, before=number)
    )
    return [with_wall_lease(world, job) for job in found]


def counts(
    world: World, *, queue: str | None = None, owner: str | None = None, machinery: bool = False
) -> dict[str, dict[str, int]]:
    """How many jobs stand where: queue → state → number; Horae's own only with *machinery*, or by their queue."""
    told: dict[str, dict[str, int]] = {}
    for (name_, state), count in (
        world.route(owner=owner).store.read(lambda tx: tx.jobs.counts(queue, owner, machinery)).items()
    ):
        told.setdefault(name_, dict.fromkeys(JOB.states, 0))[state] = count
    return told


def metrics(world: World, *, window: timedelta = WINDOW, owner: str | None = None) -> dict[str, float]:
    """The five figures of S0-29 to S0-33; rates look back over *window*."""
    now = world.clock.now()
    raw = world.route(owner=owner).store.read(lambda tx: tx.jobs.metrics(now=now, since=now - window, owner=owner))
    ended = raw["succeeded"] + raw["dead_recently"]  # a cancelled job neither succeeded nor failed
    seen = raw["finished"] + raw["live"]
    oldest = raw["oldest_due"]
    return {
        "jobs_due_count": raw["due"],
        "jobs_lag_seconds": 0.0 if oldest is None else max(0.0, (now - instant(oldest)).total_seconds()),
        "job_success_rate": raw["succeeded"] / ended if ended else 1.0,
        "job_retry_rate": (raw["finished_after_retry"] + raw["live_after_retry"]) / seen if seen else 0.0,
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
    """End a waiting job at once; ask a running one to stop, which its worker obeys at the next safe moment."""

    def write(tx: Tx) -> Job:
        job = _locked(tx, job_id, owner, queues)
        JOB.after(job.state, "cancelled")
        now = world.clock.now()
        if job.state == "running":
            _one_row(tx.jobs.ask_to_cancel(job, reason=truncate(reason) or f"asked by {actor}"), job)
        else:
            _one_row(tx.jobs.end_waiting(job, reason=truncate(reason) or f"by {actor}", now=now), job)
        tx.audit.append(entry_of(world, "cancel", job, actor, reason))
        return job

    job = world.route(owner=owner, id=job_id).store.transact(write)
    if job.state == "running":
        world.route(owner=owner, id=job_id).store.wake([job.queue])
    elif job.linked:  # its end may let others run, or a schedule count
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
    """Give a dead job a new life: all its attempts again, due now. What was cancelled for it waits for it again."""

    def write(tx: Tx) -> Job:
        job = _locked(tx, job_id, owner, queues)
        JOB.after(job.state, "revived")
        now = world.clock.now()
        if not tx.jobs.requeue(job, run_at=now, attempt=0, band=None, now=now):
            raise Conflict("unique_name_taken", id=job.id, unique=job.unique)
        tx.audit.append(entry_of(world, "revive", job, actor, reason))
        return job

    job = world.route(owner=owner, id=job_id).store.transact(write)
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
        job = _locked(tx, job_id, owner, queues)
        JOB.after(job.state, "rescheduled")
        when = job.run_at if run_at is None else aware(run_at, "run_at")
        band = None if priority is None else band_of(priority)
        _one_row(tx.jobs.requeue(job, run_at=when, attempt=job.attempt, band=band, now=world.clock.now()), job)
        tx.audit.append(entry_of(world, "reschedule", job, actor, reason, run_at=iso(when), priority=priority))
        return job

    job = world.route(owner=owner, id=job_id).store.transact(write)
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
    """Enqueue a new job like one that has ended, due now; with *payload* instead of its own where that is given."""

    def write(tx: Tx) -> Enqueued:
        job = tx.jobs.get(job_number(job_id))
        if job is None or not is_in_reach(job, owner, queues):
            raise NotFound("job_unknown", id=job_id)
        refuse_own(job)
        if job.state in LIVE:
            raise NotAllowed("job_not_ended", id=job.id, state=job.state)
        made = enqueue(world, _again(job, payload, world.clock.now()), connection=tx.connection)
        tx.audit.append(entry_of(world, "rerun", job, actor, reason, made=made.id))
        return made

    made = world.route(owner=owner, id=job_id).store.transact(write)
    world.route(owner=owner, id=job_id).store.wake([made.job.queue])
    return made


def _again(job: Job, payload: Any, now: datetime) -> Request:
    return Request(
        job.handler,
        job.payload if payload is None else payload,
        queue=job.queue,
        priority=job.priority,
        planned_at=now,  # so that a governed job gets a key of its own
        owner=job.owner,
        retry=replace(job.retry, attempts=job.max_attempts),
        timeout=job.timeout,
        concurrency_key=job.concurrency_key,
        tags=job.tags,
        object_type=job.object_type,
        object_id=job.object_id,
        action=job.action,
        rerun_of=job.id,
    )


def each(world: World, verb: Callable[..., Job], job_ids: Iterable[str], **options: Any) -> dict[str, str]:
    """Do one verb to many jobs; answers, by id, "ok" or what stood in the way. One refusal stops nobody else."""
    told: dict[str, str] = {}
    for job_id in job_ids:
        try:
            verb(world, job_id, **options)
            told[job_id] = "ok"
        except (NotFound, NotAllowed, Conflict) as problem:
            told[job_id] = str(problem)
    return told


def settle_children(world: World, *, limit: int = CHILDREN) -> int:
    """Deal with the children of jobs that died, were cancelled or were revived, where nobody has done so yet.

    The transaction that ends a job does it for a hundred; this does the rest, and what a lost transaction left. Each
    transaction is bounded; any number of processes may do it at once. How many were dealt with.
    """
    total = 0
    while done := world.route().store.settle_children(now=world.clock.now(), limit=limit):
        total += done
    return total


def _locked(tx: Tx, job_id: str, owner: str | None, queues: Collection[str]) -> Job:
    number = job_number(job_id)
    job = tx.jobs.lock(number) or tx.jobs.get(number)
    if job is None or not is_in_reach(job, owner, queues):
        raise NotFound("job_unknown", id=job_id)
    refuse_own(job)
    return job


def _one_row(changed: bool, job: Job) -> None:
    if not changed:
        raise Conflict("job_changed", id=job.id)


def entry_of(world: World, verb: str, job: Job, actor: str, reason: str, **after: Any) -> Entry:
    """Return what the audit says about a person's act on a job."""
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
    """An error as text that every database can store, cut where it gets too long."""
    clean = error.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 20] + " … (cut)"
