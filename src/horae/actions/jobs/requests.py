"""Requests for jobs: what a caller asks for, checked and turned into the row that is stored."""

# size: a request with all of its fields, and how each of them is checked, in one place

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from horae.core.checks import texts, whole_number
from horae.core.cluster.numbers import job_id
from horae.core.cluster.shard_keys import LONGEST_SHARD_KEY, in_shard
from horae.core.dataclass import dataclass
from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.gathered_jobs import Collect, Debounce, Gather, gather_of
from horae.core.jobs.job import (
    OBJECT_ACTIONS,
    OBJECT_TYPES,
    ON_PARENT_DEAD,
    PRIORITIES,
    SYSTEM,
    WEBHOOK,
    Job,
    NewJob,
    OnParentDead,
    Priority,
    State,
    band_of,
    check_run_at,
    default_key,
    job_number,
    make_new_job,
    request_hash,
    typed_key,
)
from horae.core.jobs.machinery import queue_name, unique_name
from horae.core.jobs.parents import MOST_PARENTS
from horae.core.jobs.payloads import decode, encode, label, name
from horae.core.jobs.retry import DEFAULT_RETRY, Retry, time_limit
from horae.core.time.instants import aware, iso, later
from horae.core.values import swift
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.core.governance.budgets import JobBudget
    from horae.core.jobs.expectations import Expected
    from horae.ports.world import World

DEFAULT_QUEUE = "default"
MAX_TAGS = 50
MAX_RUNNING = 1_000_000
ROOTED = 250  # so long may the key of a call be for its jobs' keys to begin with it


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a job: what to run, and when. Everything but the handler has a default."""

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
    debounce: Debounce | None = None  # run only the last of many calls
    collect: Collect | None = None  # run many calls as one job
    expect: str | None = None  # by when it must have succeeded; None: nothing is expected
    budget: str | None = None  # who pays: the name of a budget, or name/agent
    cost: Mapping[str, int] | None = None  # the most that one attempt may cost, by unit; None: one call
    shard_key: str | None = None  # in a cluster: what decides about the shard of a job of the house
    strict: bool = False
    part_of: str = ""  # the call that its key stands for, where that had more than this in it


make_request = swift(Request)


class Checked:
    """A request that is made again and again with another payload, as by the handle of a job: checked the first time.

    Later only the payload is, where neither a time nor a name is part of the request.
    """

    __slots__ = ("_known", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self._known: tuple[Any, ...] | None = None

    def new_job(self, world: World, payload: Any, now: datetime) -> NewJob:
        """Check the request with this payload and return the row to store."""
        if self._known is None or world.tracing is not None:
            made = new_job(world, replace(self.request, payload=payload), now)
            self._known = _FIELDS(made) if self._can_be_known() else None
            return made
        handler, _, queue, band, _, _, *rest = self._known
        text = encode({} if payload is None else payload, max_bytes=world.max_payload_bytes)
        return make_new_job(handler, text, queue, band, now, now, *rest)

    def _can_be_known(self) -> bool:
        """Return whether all jobs of this request are the same but for payload and time, which is now."""
        asked = self.request
        timed = asked.run_at is not None or asked.delay is not None or asked.planned_at is not None
        names = (asked.key, asked.unique, asked.object_type, asked.debounce, asked.collect, asked.expect)
        named = bool(asked.after) or any(each is not None for each in names)
        return not timed and not named and asked.handler != WEBHOOK


_FIELDS = attrgetter(*(each.name for each in fields(NewJob)))  # payload, run_at and planned_at as in `new_job`


class AlikeRequests(Iterable[Request]):
    """Requests that differ in nothing but their payloads: checked once, where that is enough.

    *can_wait* says that all payloads are there already, so that the last may be read while the first are stored. What
    a caller still makes is read at once: it may take its time, and use a value again for the next one.
    """

    def __init__(
        self, shared: Request, payloads: Iterable[Any], *, can_wait: bool = False, checked: Checked | None = None
    ) -> None:
        self.shared = shared
        self.payloads = payloads
        self.can_wait = can_wait
        self.checked = checked  # where the same request is made again and again

    def __iter__(self) -> Iterator[Request]:
        return (replace(self.shared, payload=payload) for payload in self.payloads)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job that answers a request; ``deduplicated`` when it was there before."""

    number: int
    deduplicated: bool
    late: bool
    stored: NewJob | Job = field(repr=False, compare=False)
    stored_at: datetime = field(repr=False, compare=False)
    payload: str | None = field(default=None, repr=False, compare=False)  # its own, where *stored* is shared by many
    origin: Any = field(default=None, repr=False, compare=False)  # through what it was enqueued, to wait there
    gathered: int = 0  # calls that a debounced job, values that a collecting job stands for; 0: neither

    @property
    def id(self) -> str:
        return job_id(self.number)

    @property
    def state(self) -> State:
        return self.stored.state if isinstance(self.stored, Job) else "queued"

    @property
    def run_at(self) -> datetime:
        return self.stored.run_at

    @property
    def job(self) -> Job:
        """Return the whole job; made on demand, because callers that enqueue thousands read none of them."""
        if isinstance(self.stored, Job):
            return self.stored
        own = self.stored if self.payload is None else replace(self.stored, payload=self.payload)
        return as_stored(own, self.number, self.stored_at)


make_enqueued = swift(Enqueued)


def new_jobs(world: World, requests: Iterable[Request], now: datetime) -> Sequence[NewJob]:
    """Check requests and return the rows to store."""
    if isinstance(requests, AlikeRequests):
        return _alike_jobs(world, requests, now)
    return [new_job(world, request, now) for request in requests]


def _alike_jobs(world: World, requests: AlikeRequests, now: datetime) -> Sequence[NewJob]:
    """Check what requests share with the first of them, and of the others only the payloads, one by one."""
    if requests.checked is not None:
        return [requests.checked.new_job(world, payload, now) for payload in requests.payloads]
    shared, payloads = requests.shared, iter(requests.payloads)
    made = [new_job(world, replace(shared, payload=payload), now) for payload in islice(payloads, 1)]
    if not made or made[0].is_named or shared.handler == WEBHOOK:
        return made + [new_job(world, request, now) for request in AlikeRequests(shared, payloads)]
    most = world.max_payload_bytes
    rest = (encode({} if payload is None else payload, max_bytes=most) for payload in payloads)
    return AlikeJobs(made[0], [made[0].payload], rest if requests.can_wait else iter(list(rest)))


def new_job(world: World, request: Request, now: datetime) -> NewJob:
    """Check a request and return the row to store."""
    run_at = _run_at(request, now)
    check_run_at(run_at, now=now, strict=request.strict)
    planned_at = run_at if request.planned_at is None else aware(request.planned_at, "planned_at")
    tags = request.tags if type(request.tags) is tuple else texts(request.tags, "tags")
    if len(tags) > MAX_TAGS:
        raise InvalidInput("too_many_tags", count=len(tags), most=MAX_TAGS)
    whole_number(request.concurrency_limit, "concurrency_limit", 1, MAX_RUNNING)
    if not isinstance(request.retry, Retry):
        raise InvalidInput("retry_unreadable", value=repr(request.retry))
    if request.handler == WEBHOOK:
        from horae.core.outgoing.webhooks import refuse_credentials

        refuse_credentials(request.handler, request.payload)
    payload = encode({} if request.payload is None else request.payload, max_bytes=world.max_payload_bytes)
    key, typed = _key(request, planned_at)
    gather = None
    if request.debounce is not None or request.collect is not None:
        gather = _gather(request)
        run_at = planned_at = later(now, gather.wait)
    expect = None if request.expect is None else _expect(request, run_at, now)
    unique = gather.name if gather is not None else None if request.unique is None else unique_name(request.unique)
    serial = _optional(request.concurrency_key, "concurrency key", 250)
    if request.shard_key is not None and world.cluster is not None and request.owner == SYSTEM:
        key, typed, unique, serial = in_shard(request.shard_key, key, typed, unique, serial)
        gather = gather if gather is None or unique is None else replace(gather, name=unique)
    needs = request.after if type(request.after) is tuple else texts(request.after, "after")
    if len(needs) > MOST_PARENTS:
        raise InvalidInput("too_many_parents", count=len(needs), most=MOST_PARENTS)
    if request.on_parent_dead not in ON_PARENT_DEAD:
        known = list(ON_PARENT_DEAD)
        raise InvalidInput("choice_unknown", name="on_parent_dead", value=request.on_parent_dead, choices=known)
    return make_new_job(  # by position: with names it took twice as long
        name(request.handler, "handler", 200),
        payload,
        queue_name(request.queue),
        band_of(request.priority),
        run_at,
        planned_at,
        label(request.owner, "owner"),
        request.retry.attempts,
        None if request.retry is DEFAULT_RETRY else stored_retry(request.retry),
        None if request.timeout is None else time_limit(request.timeout),
        key,
        unique,
        serial,
        request.concurrency_limit,
        encode([label(tag, "tag", 100) for tag in tags]) if tags else None,
        _optional(_trace(world, request), "trace id", 64),
        request.object_type,
        request.object_id,
        request.action,
        "needs" if needs else "",
        ", ".join(needs)[:255] if needs else None,
        checkpoint=None if request.checkpoint is None else encode(request.checkpoint, "checkpoint"),
        after=tuple(job_number(needed) for needed in needs) if needs else (),
        request_hash="" if key is None else _hash(request, payload, expect),
        on_parent_dead=request.on_parent_dead,
        typed_key=typed,
        rerun_of=None if request.rerun_of is None else job_number(request.rerun_of),
        budget=None if request.budget is None and request.cost is None else _budget(request),
        gather=gather,
        expect=expect,
        shard_key=_optional(request.shard_key, "shard key", LONGEST_SHARD_KEY),
    )


def _expect(request: Request, run_at: datetime, now: datetime) -> Expected | None:
    from horae.core.jobs.expectations import expected_of  # few jobs have any

    return expected_of(request.expect, run_at, now)


def _gather(request: Request) -> Gather:
    """Return how a request joins others; refuse what one job of many calls cannot have."""
    apart = {
        "unique": request.unique,
        "after": request.after or None,
        "run_at": request.run_at,
        "delay": request.delay,
        "object_type": request.object_type,
        "expect": request.expect,
    }
    for option, value in apart.items():
        if value is not None:
            raise InvalidInput("gather_not_with", option=option)
    return gather_of(request.debounce, request.collect, request.queue, request.handler, request.payload)


def _trace(world: World, request: Request) -> str | None:
    """Return the trace of the request, or else the trace that is active here."""
    return request.trace_id if request.trace_id or world.tracing is None else world.tracing.current()


@lru_cache(maxsize=1024)
def stored_retry(retry: Retry) -> str | None:
    """Return a retry policy as a job's row has it; None for the default."""
    return None if retry == DEFAULT_RETRY else encode(retry.as_json())


def _budget(request: Request) -> str | None:
    from horae.core.governance.budgets import job_budget  # few jobs draw on one

    drawn_on = job_budget(request.budget, request.cost)
    return None if drawn_on is None else encode(drawn_on.as_json())


def _stored_budget(text: str) -> JobBudget:
    from horae.core.governance.budgets import JobBudget

    return JobBudget.from_json(decode(text))


def _optional(value: str | None, what: str, max_length: int = 255) -> str | None:
    return None if value is None else label(value, what, max_length)


def _run_at(request: Request, now: datetime) -> datetime:
    if request.run_at is not None and request.delay is not None:
        raise InvalidInput("run_at_and_delay")
    if request.delay is not None:
        return later(now, request.delay)
    return now if request.run_at is None else aware(request.run_at, "run_at")


def _key(request: Request, planned_at: datetime) -> tuple[str | None, str | None]:
    """Return the caller's own key, or for a governed job one made of its object, action and planned time (S0-6).

    The second value is the typed form of such a default key.
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


def _hash(request: Request, payload: str, expect: Expected | None) -> str:
    """Return the hash by which two requests are the same: all that was asked for, but not when it was asked."""
    asked = {
        "handler": request.handler,
        "payload": decode(payload),  # as a value: the order in which its names were written does not matter
        "queue": request.queue,
        "priority": request.priority,
        "run_at": None if request.run_at is None else iso(request.run_at),
        "delay": request.delay,
        "object": [request.object_type, request.object_id, request.action],
    } | ({"part_of": request.part_of} if request.part_of else {})
    if request.budget is not None:
        asked["budget"] = [request.budget, request.cost]
    if expect is not None:
        asked["expect"] = expect.text
    return request_hash(asked)


def as_stored(row: NewJob, number: int, now: datetime) -> Job:
    """Return the job that was just written, without reading it back."""
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
        budget=None if row.budget is None else _stored_budget(row.budget),
    )


def keyed_by_call(requests: Sequence[Request], key: str) -> list[Request]:
    """Give the jobs of one call keys made of the call's own *key*; a job that has a key keeps it.

    The key stands for exactly these jobs in this order.
    """
    call = request_hash({"keys": [each.key for each in requests]})
    root = label(key, "key")
    root = root if len(root) <= ROOTED else hashlib.sha256(root.encode()).hexdigest()
    return [
        replace(each, key=f"{root}#{index}", part_of=call) if each.key is None else each
        for index, each in enumerate(requests)
    ]
