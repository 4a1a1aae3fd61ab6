"""The verbs of the job queue. Each is one transaction; library, HTTP, worker and command line all enter here."""

# size: every verb of one room behind one door

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from horae.actions.leases import with_wall_lease
from horae.actions.moments import one_moment
from horae.core.audit import Entry
from horae.core.instants import aware, instant, iso, later
from horae.core.jobs import (
    JOB,
    LIVE,
    OBJECT_ACTIONS,
    OBJECT_TYPES,
    ON_PARENT_DEAD,
    ORDERS,
    PRIORITIES,
    SYSTEM,
    Change,
    Filter,
    Job,
    Lease,
    NewJob,
    OnParentDead,
    Order,
    Outcome,
    Priority,
    Run,
    Settlement,
    State,
    band_of,
    check_run_at,
    default_key,
    job_number,
    make_new_job,
    renewal_pause,
    request_hash,
    settlement,
    typed_key,
)
from horae.core.machinery import queue_name, refuse_own, unique_name
from horae.core.payloads import decode, encode, label, name
from horae.core.retry import DEFAULT_RETRY, Retry, time_limit
from horae.core.values import swift
from horae.core.webhooks import refuse_credentials
from horae.errors import Conflict, InvalidInput, InvalidPayload, LeaseLost, NotAllowed, NotFound
from horae.ports import Claim, Placed, Renewed, Tx, World

DEFAULT_QUEUE = "default"
DEFAULT_LEASE = timedelta(seconds=30)
HTTP_LEASE = timedelta(seconds=120)
MAX_PULL = 1000
MAX_PAGE = 1000
MAX_TAGS = 50
MAX_RUNNING = 1_000_000
MAX_LEASE = timedelta(days=30)
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
    new = [_new_job(world, request, now) for request in requests]
    if not new:
        return []
    joins = connection is not None
    placed = world.store.insert_on(connection, new, now=now) if joins else world.store.insert(new, now=now)
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
    found = world.store.read(lambda tx: [tx.jobs.get(number) for number in sorted(numbers)])
    return {job.number: job for job in found if job is not None}


def with_known(world: World, placed: Sequence[Enqueued]) -> list[Enqueued]:
    """The same, with the jobs behind known keys: for whoever enqueued on a connection, after its commit."""
    waiting = [each.number for each in placed if isinstance(each.stored, NewJob) and each.stored.after]
    known = _known_jobs(world, placed, waiting=waiting)
    return [replace(each, stored=known.get(each.number, each.stored)) for each in placed]


def _new_job(world: World, request: Request, now: datetime) -> NewJob:
    run_at = _run_at(request, now)
    check_run_at(run_at, now=now, strict=request.strict)
    planned_at = run_at if request.planned_at is None else aware(request.planned_at, "planned_at")
    if len(request.tags) > MAX_TAGS:
        raise InvalidInput(f"{len(request.tags)} tags are too many; at most {MAX_TAGS} are accepted.")
    if not 1 <= request.concurrency_limit <= MAX_RUNNING:
        raise InvalidInput(f"concurrency_limit {request.concurrency_limit} is outside 1 to {MAX_RUNNING}.")
    if not isinstance(request.retry, Retry):
        raise InvalidInput(f"retry={request.retry!r} is no policy; write for example Retry.fixed(60, attempts=3).")
    refuse_credentials(request.handler, request.payload)
    payload = encode({} if request.payload is None else request.payload, max_bytes=world.max_payload_bytes)
    key, typed = _key(request, planned_at)
    needs = request.after
    if request.on_parent_dead not in ON_PARENT_DEAD:
        known = ", ".join(ON_PARENT_DEAD)
        raise InvalidInput(f"on_parent_dead={request.on_parent_dead!r} is not known; choose one of {known}.")
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
        raise InvalidInput("Give run_at or delay, not both.")
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
        raise InvalidInput(f"Unknown object_type {request.object_type!r}; choose one of {', '.join(OBJECT_TYPES)}.")
    if request.action not in OBJECT_ACTIONS:
        raise InvalidInput(f"Unknown action {request.action!r}; choose one of {', '.join(OBJECT_ACTIONS)}.")
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


# -- the worker's side -------------------------------------------------------------------------------------------


def pull(
    world: World,
    *,
    worker_id: str,
    queues: Sequence[str] = (DEFAULT_QUEUE,),
    limit: int = 100,
    lease: timedelta = DEFAULT_LEASE,
    order: Order | None = None,
    owner: str | None = None,
) -> list[Job]:
    """Take up to *limit* due jobs under a lease, queue after queue; nothing that is not due is ever taken.

    With *owner* only that tenant's jobs are seen.
    """
    if not 1 <= limit <= MAX_PULL:
        raise InvalidInput(f"limit {limit} is outside 1 to {MAX_PULL}.")
    check_lease(lease)
    if order is not None and order not in ORDERS:
        raise InvalidInput(f"Unknown order {order!r}; choose one of {', '.join(ORDERS)}.")
    taken: list[Job] = []
    for queue in queues:
        room = limit - len(taken)
        if room > 0:
            who, steady = label(worker_id, "worker id", 200), world.clock.steady()
            claim = Claim(queue_name(queue), room, who, lease, order, owner, steady)
            taken += world.store.claim(claim, now=world.clock.now())
    return taken


def check_lease(lease: timedelta) -> None:
    """Refuse a lease that nobody can keep, or that would keep a dead worker's job for ever."""
    if not timedelta(seconds=1) <= lease <= MAX_LEASE:
        raise InvalidInput(
            f"A lease of {lease} is outside one second to {MAX_LEASE.days} days; a long job renews its own."
        )


def settle(world: World, endings: Sequence[tuple[Job, Outcome]]) -> dict[str, Change | None]:
    """End a batch of held jobs in one transaction; answers, by id, what became of each, None if it was too late.

    The jobs are the values that their claim returned; what follows is decided from them.
    """
    now = world.clock.now()
    written = [settlement(job, outcome, now=now, roll=world.dice.roll()) for job, outcome in endings]
    return _settled(world, [job for job, _ in endings], written, now)


def _settled(
    world: World, jobs: Sequence[Job], written: Sequence[Settlement], now: datetime
) -> dict[str, Change | None]:
    rejected = world.store.settle(written, now=now)
    told = {job.id: None if job.number in rejected else done.change for job, done in zip(jobs, written, strict=True)}
    again = {job.queue for job in jobs if (change := told[job.id]) is not None and change.state == "queued"}
    world.store.wake(again)  # whoever sleeps until the next due time may have to rise earlier now
    return told


def ack(
    world: World,
    job_id: str,
    token: int,
    *,
    result: Any = None,
    next_action_at: datetime | None = None,
    audit_event_id: str | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """The job is done; only its current holder may say so."""
    told = None if result is None else encode(result, "result", world.max_payload_bytes)
    due = None if next_action_at is None else aware(next_action_at, "next_action_at")
    link = None if audit_event_id is None else label(audit_event_id, "audit event id", 100)
    outcome = Outcome("succeeded", result=told, next_action_at=due, audit_event_id=link)
    return _end(world, job_id, token, outcome, owner=owner, queues=queues)


def fail(
    world: World,
    job_id: str,
    token: int,
    error: str,
    *,
    retry_delay: timedelta | None = None,
    from_run_at: bool = False,
    final: bool = False,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """The attempt failed; the job is tried again by *retry_delay* or its own policy, or ends dead at the cap."""
    if retry_delay is not None and retry_delay < timedelta(0):
        raise InvalidInput(f"A retry delay of {retry_delay} lies in the past; use zero or more.")
    outcome = Outcome("failed", error=shown(error), delay=retry_delay, from_run_at=from_run_at, final=final)
    return _end(world, job_id, token, outcome, owner=owner, queues=queues)


def release(
    world: World,
    job_id: str,
    token: int | None = None,
    *,
    actor: str = SYSTEM,
    reason: str = "",
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    """Give a running job back to its queue at once; no attempt is counted.

    A worker gives its token. An operator gives none: then the current holder, whoever it is, loses the job.
    """
    outcome = Outcome("released", error=shown(reason) or None)
    if token is not None:
        return _end(world, job_id, token, outcome, owner=owner, queues=queues)
    job = get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    JOB.after(job.state, "released")
    return _end(world, job_id, job.token, outcome, _entry(world, "release", job, actor, reason), owner=owner)


def _end(
    world: World,
    job_id: str,
    token: int,
    outcome: Outcome,
    entry: Entry | None = None,
    *,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> Job:
    job = get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    if job.state != "running" or job.token != token:
        raise LeaseLost(job.id, token)
    now = world.clock.now()
    done = settlement(job, outcome, now=now, roll=world.dice.roll())
    written = done if entry is None else replace(done, entry=entry)
    if _settled(world, [job], [written], now)[job.id] is None:
        raise LeaseLost(job.id, token)
    return get(world, job_id)


def renew(world: World, leases: Iterable[Lease], *, lease: timedelta = DEFAULT_LEASE) -> Renewed:
    """Extend leases from now on; who is missing from the answer has lost the job."""
    return world.store.renew(leases, until=world.clock.steady() + lease)


def progress(world: World, lease: Lease, value: Any) -> None:
    """Show how far the attempt has come."""
    text = encode(value, "progress", world.max_payload_bytes)
    if not world.store.note(lease, progress=text, now=world.clock.now()):
        raise LeaseLost(lease.job_id, lease.token)


def checkpoint(world: World, lease: Lease, value: Any) -> None:
    """Keep what a later attempt needs to go on from here."""
    text = encode(value, "checkpoint", world.max_payload_bytes)
    if not world.store.note(lease, checkpoint=text, now=world.clock.now()):
        raise LeaseLost(lease.job_id, lease.token)


def once(
    world: World,
    lease: Lease,
    step: str,
    work: Callable[[Any], Any],
    *,
    limit: timedelta | None = None,
    held_for: timedelta | None = None,
) -> Any:
    """Run ``work(connection)`` and remember its result in one transaction; a later attempt gets the result back.

    *limit* bounds each statement of *work*: what is left of the job's time limit. The job's row is locked meanwhile, so
    that its lease can be neither renewed nor reaped; if that took long, the commit extends it by *held_for*.
    """
    label(step, "step")
    began = world.clock.monotonic()

    def write(tx: Tx) -> Any:
        tx.ledger.begin(lease.job_number, lease.token)
        known = tx.ledger.get(lease.job_number, step)
        if known is None:
            with tx.lent(limit) as connection:
                known = _result_of(step, work(connection), world.max_payload_bytes)
            tx.ledger.put(lease.job_number, step, known, world.clock.now())
        took = timedelta(seconds=world.clock.monotonic() - began)
        if held_for is not None and took > renewal_pause(held_for) / 2:
            tx.ledger.renew(lease.job_number, world.clock.steady() + held_for)
        return decode(known)["value"]

    return world.store.transact(write)


def _result_of(step: str, value: Any, max_bytes: int) -> str:
    try:
        return encode({"value": value}, "result", max_bytes)
    except InvalidPayload as problem:
        raise InvalidPayload(f"{problem} What the step {step!r} wrote was rolled back: it has not happened.") from None


def lose_expired(world: World, limit: int = 100) -> list[tuple[Job, bool]]:
    """Close attempts whose lease ran out; answers with the jobs as they were and whether each is dead now."""
    return lose(world, world.store.expired(now=world.clock.steady(), limit=limit))


def lose(world: World, silent: Sequence[Job]) -> list[tuple[Job, bool]]:
    """The same for jobs that somebody has found; one whose lease has been renewed since is left alone."""
    if not silent:
        return []
    now, steady = world.clock.now(), world.clock.steady()
    endings = [settlement(job, Outcome("lost"), now=now, roll=world.dice.roll()) for job in silent]
    written = [replace(ending, expired_before=steady) for ending in endings]
    rejected = world.store.settle(written, now=now)
    lost = [
        (job, done.change.state == "dead")
        for job, done in zip(silent, written, strict=True)
        if job.number not in rejected
    ]
    world.store.wake({job.queue for job, dead in lost if not dead})
    return lost


# -- a person's side ---------------------------------------------------------------------------------------------


def get(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> Job:
    """One job, live or finished; with *owner*, somebody else's does not exist, with *queues*, none of another queue."""
    number = job_number(job_id)
    job = world.store.read(lambda tx: tx.jobs.get(number))
    if job is None or not is_in_reach(job, owner, queues):
        raise NotFound(f"There is no job {job_id}. It may have been cleaned up; `horae job list` shows what there is.")
    return with_wall_lease(world, job)


def is_in_reach(job: Job, owner: str | None, queues: Collection[str]) -> bool:
    """Whether whoever sees only this tenant's jobs, and only these queues, sees the job; none named means any."""
    return (owner is None or job.owner == owner) and (not queues or job.queue in queues)


@one_moment
def runs(world: World, job_id: str, *, owner: str | None = None, queues: Collection[str] = ()) -> list[Run]:
    """Every attempt at a job, the oldest first, the one under way last."""
    job = get(world, job_id, owner=owner, queues=queues)
    return world.store.read(lambda tx: tx.jobs.runs(job.number))


def find(world: World, wanted: Filter | None = None, *, limit: int = 50, before: str | None = None) -> list[Job]:
    """Jobs, newest first; *before* is the last id of the page before."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit {limit} is outside 1 to {MAX_PAGE}.")
    wanted = wanted or Filter()
    unknown = set(wanted.states) - set(JOB.states)
    if unknown:
        raise InvalidInput(f"Unknown state {sorted(unknown)[0]!r}; choose from {', '.join(JOB.states)}.")
    number = None if before is None else job_number(before)
    found = world.store.read(lambda tx: tx.jobs.find(wanted, limit=limit, before=number))
    return [with_wall_lease(world, job) for job in found]


def counts(
    world: World, *, queue: str | None = None, owner: str | None = None, machinery: bool = False
) -> dict[str, dict[str, int]]:
    """How many jobs stand where: queue → state → number; Horae's own only with *machinery*, or by their queue."""
    told: dict[str, dict[str, int]] = {}
    for (name_, state), count in world.store.read(lambda tx: tx.jobs.counts(queue, owner, machinery)).items():
        told.setdefault(name_, dict.fromkeys(JOB.states, 0))[state] = count
    return told


def metrics(world: World, *, window: timedelta = WINDOW, owner: str | None = None) -> dict[str, float]:
    """The five figures of S0-29 to S0-33; rates look back over *window*."""
    now = world.clock.now()
    raw = world.store.read(lambda tx: tx.jobs.metrics(now=now, since=now - window, owner=owner))
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
            _one_row(tx.jobs.ask_to_cancel(job, reason=shown(reason) or f"asked by {actor}"), job)
        else:
            _one_row(tx.jobs.end_waiting(job, reason=shown(reason) or f"by {actor}", now=now), job)
        tx.audit.append(_entry(world, "cancel", job, actor, reason))
        return job

    job = world.store.transact(write)
    if job.state == "running":
        world.store.wake([job.queue])
    elif job.linked:  # its end may let others run, or a schedule count
        world.store.wake(["*"])
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
            raise Conflict(f"Job {job.id} cannot be revived: another live job has its unique name {job.unique!r}.")
        tx.audit.append(_entry(world, "revive", job, actor, reason))
        return job

    job = world.store.transact(write)
    world.store.wake([job.queue])
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
        tx.audit.append(_entry(world, "reschedule", job, actor, reason, run_at=iso(when), priority=priority))
        return job

    job = world.store.transact(write)
    world.store.wake([job.queue])
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
            raise NotFound(f"There is no job {job_id}.")
        refuse_own(job)
        if job.state in LIVE:
            raise NotAllowed(f"Job {job.id} is {job.state}; only a job that has ended can be run again.")
        made = enqueue(world, _again(job, payload, world.clock.now()), connection=tx.connection)
        tx.audit.append(_entry(world, "rerun", job, actor, reason, made=made.id))
        return made

    made = world.store.transact(write)
    world.store.wake([made.job.queue])
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
    while done := world.store.settle_children(now=world.clock.now(), limit=limit):
        total += done
    return total


def _locked(tx: Tx, job_id: str, owner: str | None, queues: Collection[str]) -> Job:
    number = job_number(job_id)
    job = tx.jobs.lock(number) or tx.jobs.get(number)
    if job is None or not is_in_reach(job, owner, queues):
        raise NotFound(f"There is no job {job_id}.")
    refuse_own(job)
    return job


def _one_row(changed: bool, job: Job) -> None:
    if not changed:
        raise Conflict(f"Job {job.id} changed while it was being worked on; look at it again and repeat.")


def _entry(world: World, verb: str, job: Job, actor: str, reason: str, **after: Any) -> Entry:
    return Entry(
        at=world.clock.now(),
        actor=actor,
        verb=verb,
        object_type="job",
        object_id=job.id,
        owner=job.owner,
        reason=shown(reason) or None,
        before={"state": job.state, "run_at": iso(job.run_at), "attempt": job.attempt, "token": job.token},
        after={key: value for key, value in after.items() if value is not None},
    )


def shown(error: str, limit: int = 20_000) -> str:
    """An error as text that every database can store, cut where it gets too long."""
    clean = error.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 20] + " … (cut)"
