"""Jobs: what one is, how it moves, what follows the end of an attempt.

Due is a comparison, not a state: a queued job whose ``run_at`` has come is due, and no loop moves it anywhere.
``attempt`` counts ended failures and losses from zero; ``token`` only ever grows and names the current holder.
"""

# size: a job in each of its forms and the rules of its endings, so that a new field is written in one place

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from horae.core.audit.entries import Entry
from horae.core.cluster.numbers import job_id, read_number
from horae.core.dataclass import dataclass
from horae.core.jobs.retry import Retry
from horae.core.machine import Machine
from horae.core.time.instants import iso, later
from horae.core.values import swift
from horae.errors import InvalidInput, NotFound, PastDue

if TYPE_CHECKING:
    from horae.core.governance.budgets import JobBudget
    from horae.core.jobs.expectations import Expected
    from horae.core.jobs.filters import Term
    from horae.core.jobs.gathered_jobs import Gather
    from horae.core.jobs.lines import Lines

State = Literal["queued", "running", "succeeded", "dead", "cancelled"]
Priority = Literal["high", "medium", "low"]
Order = Literal["priority", "run_at"]
OnParentDead = Literal["cancel", "run", "wait"]  # what becomes of a job when one that it waits for never succeeds
Ending = Literal["succeeded", "failed", "timed_out", "snoozed", "cancelled", "released", "lost", "skipped"]

PRIORITIES: tuple[Priority, ...] = ("high", "medium", "low")
ORDERS: tuple[Order, ...] = ("priority", "run_at")
ON_PARENT_DEAD: tuple[OnParentDead, ...] = ("cancel", "run", "wait")
LIVE: tuple[State, ...] = ("queued", "running")
OBJECT_TYPES = ("memory", "experience", "cognition")
OBJECT_ACTIONS = ("verify", "revalidate", "decay", "archive", "reinstate-check")
GOVERN = "govern"  # the handler of jobs about objects
SYSTEM = "system"
LOSSES_ALWAYS_FORGIVEN = 3  # so that a deploy that kills two workers cannot kill a job with one attempt
PAST_TOLERANCE = timedelta(seconds=5)
SLOTS = 50  # jobs of one queue at once in one worker: enough that coinciding crons start together
# Held by the process that started it, never handed to another, never tried again; also the queue of such jobs.
LOCAL = "local"
# Why a tenant's job is held: the house's workers run it only once its handler is stored as open to tenants.
CLOSED = "closed"
WEBHOOK = "webhook"  # the handler that calls a URL
# Ours, and safe for tenants: open unless an application stores one of its own by that name as closed.
OPEN_HANDLERS = (
    "attend", "attention.deadline", "attention.start", "attention.timeout", "dispatch", "govern", WEBHOOK,
)  # fmt: skip
THREE_TIMES = Retry()
DEBOUNCED, COLLECTED = "horae:debounce:", "horae:collect:"  # how the unique names of jobs of many calls begin
NOT_KEPT = "ResultNotKept"  # how the error begins of a job that succeeded and whose result is lost

JOB: Machine[State] = Machine(
    "job",
    "queued",
    {
        ("queued", "pulled"): "running",
        ("queued", "rescheduled"): "queued",
        ("queued", "cancelled"): "cancelled",
        ("running", "acked"): "succeeded",
        ("running", "failed"): "queued",
        ("running", "snoozed"): "queued",
        ("running", "released"): "queued",
        ("running", "lost"): "queued",
        ("running", "exhausted"): "dead",
        ("running", "cancelled"): "cancelled",
        ("dead", "revived"): "queued",
    },
)


@dataclass(frozen=True, slots=True)
class Job:
    """One due item, as stored."""

    number: int
    handler: str
    payload: Any
    state: State
    queue: str
    priority: Priority
    run_at: datetime
    planned_at: datetime
    created_at: datetime
    owner: str = SYSTEM
    attempt: int = 0
    max_attempts: int = 3
    retry: Retry = THREE_TIMES
    timeout: timedelta | None = None
    token: int = 0
    worker_id: str | None = None
    leased_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    key: str | None = None
    unique: str | None = None
    concurrency_key: str | None = None
    held: str = ""
    tags: tuple[str, ...] = ()
    trace_id: str | None = None
    progress: Any = None
    checkpoint: Any = None
    result: Any = None
    last_error: str | None = None
    cancel_reason: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    action: str | None = None
    held_for: str | None = None
    has_dependents: bool = False  # its end concerns others: slots, waiting jobs, its schedule
    group: str | None = None
    schedule_id: int | None = None
    fire_at: datetime | None = None
    progressed_at: datetime | None = None
    rerun_of: int | None = None  # the job that was run again as this one
    budget: JobBudget | None = None  # what each attempt may cost, and who pays

    @property
    def id(self) -> str:
        """The name by which the outside knows the job."""
        return job_id(self.number)

    @property
    def run_id(self) -> str:
        """The current or last attempt: the job and its token."""
        return f"{job_id(self.number)}.{self.token}"

    @property
    def cancel_requested(self) -> bool:
        return self.cancel_reason is not None

    @property
    def holds_name(self) -> bool:
        """Whether its unique name keeps others from being stored; that of a debounced or collecting job does not."""
        return self.unique is not None and not self.unique.startswith((DEBOUNCED, COLLECTED))

    def is_due(self, now: datetime) -> bool:
        return self.state == "queued" and not self.held and self.run_at <= now


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter for jobs; None means any."""

    states: tuple[str, ...] = ()
    queue: str | None = None
    handler: str | None = None
    owner: str | None = None
    tag: str | None = None
    key: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    machinery: bool = False  # also jobs of Horae's own, which are only found by their queue otherwise
    not_held: tuple[str, ...] = ()  # leave out what is held for one of these reasons
    queues: tuple[str, ...] = ()  # only of these; none named means any
    terms: tuple[Term, ...] = ()  # what else must hold, from a filter in words

    @property
    def needs_bound(self) -> bool:
        """Whether looking for it could read rows without end: neither everything is wanted, nor what an index holds.

        Dead and running jobs have indexes of their own, and so have cancelled ones, of which there may be many.
        """
        if self.states in (("dead",), ("running",)):
            return False
        anything = Filter(machinery=self.machinery)
        return self not in (anything, replace(anything, states=("cancelled",)))


@dataclass(frozen=True, slots=True)
class Run:
    """One ended attempt, or, while ``outcome`` is "running", the one under way."""

    job_number: int
    token: int
    outcome: str
    attempt: int
    handler: str
    queue: str
    owner: str
    worker_id: str | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None = None
    result: Any = None
    next_action_at: datetime | None = None
    audit_event_id: str | None = None
    trace_id: str | None = None
    schedule_id: int | None = None
    fire_at: datetime | None = None

    @property
    def id(self) -> str:
        return f"{job_id(self.job_number)}.{self.token}"

    @property
    def job_id(self) -> str:
        return job_id(self.job_number)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job about to be stored; payload, retry, tags and budget are JSON text already."""

    handler: str
    payload: str
    queue: str
    band: int
    run_at: datetime
    planned_at: datetime
    owner: str = SYSTEM
    max_attempts: int = 3
    retry: str | None = None
    timeout: timedelta | None = None
    key: str | None = None
    unique: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    tags: str | None = None
    trace_id: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    action: str | None = None
    held: str = ""
    held_for: str | None = None
    has_dependents: bool = False
    group: str | None = None
    schedule_id: int | None = None
    fire_at: datetime | None = None
    checkpoint: str | None = None
    after: tuple[int, ...] = ()  # the jobs that must succeed first
    request_hash: str = ""
    on_parent_dead: OnParentDead = "cancel"
    rerun_of: int | None = None
    typed_key: str | None = None  # beside a default key: see :func:`typed_key`
    budget: str | None = None
    entry: Entry | None = None  # what the audit says about it, if it is stored; the store adds its id
    gather: Gather | None = None  # how it joins others of its key, where it is debounced or collected
    shard_key: str | None = None  # what decides about its shard, where the house has several databases
    expect: Expected | None = None  # by when it must have succeeded
    number: int | None = None  # where it was given before: by the database of a caller's transaction, in a cluster

    @property
    def is_named(self) -> bool:
        """Whether more than its row is written: a key, a unique name (also of others that it joins), parents, what is
        expected of it.
        """
        return self.key is not None or self.unique is not None or bool(self.after) or self.expect is not None


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's time-limited hold on one job; the token is the fence."""

    job_number: int
    token: int

    @property
    def job_id(self) -> str:
        return job_id(self.job_number)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt, as its worker reports it."""

    ending: Ending
    error: str | None = None  # with "succeeded": why its result could not be kept
    result: str | None = None  # JSON text
    delay: timedelta | None = None  # the caller's own retry delay, or how long to snooze
    from_run_at: bool = False  # document 000: the delay counts from run_at, not from now
    final: bool = False  # a failure that must not be tried again
    waits_for: str | None = None  # what an attempt that is put back waits for, where its schedule must know
    next_action_at: datetime | None = None
    audit_event_id: str | None = None
    spent: Mapping[str, int] | None = None  # what the attempt as a whole has cost; None: not reported
    by: str | None = None  # the caller who reported it through a door; None: a worker with the database
    lines: Lines | None = None  # what the handler has logged


@dataclass(frozen=True, slots=True)
class Change:
    """The new state of a running job whose attempt has ended."""

    event: str
    state: State
    attempt: int
    run_at: datetime
    error: str | None
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """One fenced ending: whose attempt, how it ended, what follows."""

    number: int
    token: int
    outcome: Outcome
    change: Change
    unique: bool = False
    has_dependents: bool = False
    expired_before: datetime | None = None  # for a lost lease: still expired at that instant, or not lost at all
    entry: Entry | None = None  # what the audit says about it, if it is accepted


make_job, make_new_job = swift(Job), swift(NewJob)
_make_change, _make_settlement = swift(Change), swift(Settlement)
_ACKED = JOB.after("running", "acked")


def job_number(id: str | int) -> int:  # noqa: A002  # the public name of the field
    """Return the number behind ``job_12``; anything else cannot name a job."""
    if isinstance(id, int):
        return id
    number = read_number(id.removeprefix("job_"))
    if number is None:
        raise NotFound("job_id_unreadable", id=id)
    return number


def govern_name(kind: str) -> str:
    """Return the name of the verifier of one kind of objects among the handlers of a process."""
    return f"{GOVERN}.{kind}"


def handler_of(job: Job) -> str:
    """Return the handler that runs a job: for one about an object the verifier of its kind, where there is one."""
    return job.handler if job.handler != GOVERN or job.object_type is None else govern_name(job.object_type)


def band_of(priority: str) -> int:
    """Return the number of a priority; high is 0, so that ascending order serves it first."""
    if priority not in PRIORITIES:
        raise InvalidInput("choice_unknown", name="priority", value=str(priority), choices=list(PRIORITIES))
    return PRIORITIES.index(priority)


def default_key(object_id: str, action: str, planned_at: datetime) -> str:
    """Return the idempotency key of a governed job whose caller gave none (S0-6)."""
    return f"{object_id}:{action}:{iso(planned_at)}"


def typed_key(object_type: str, default: str) -> str:
    """Return the key of earlier versions, and of a job whose default key an object of another type has."""
    return f"{object_type}:{default}"


def request_hash(request: Mapping[str, Any]) -> str:
    """Return what tells a repeated request from another one with the same key."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()


def after(job: Job, outcome: Outcome, *, now: datetime, roll: float) -> Change:
    """Decide what becomes of a running job after this outcome; *roll* is a number in [0, 1)."""
    if outcome.ending == "succeeded":  # first, because almost all do
        return _make_change("acked", _ACKED, job.attempt, job.run_at, None, None)
    if job.cancel_requested:
        counted = int(outcome.ending in ("failed", "timed_out", "lost"))
        return _change(job, "cancelled", run_at=job.run_at, failures=counted, error=outcome.error or job.last_error)
    match outcome.ending:
        case "cancelled" | "skipped":
            return _change(job, "cancelled", run_at=job.run_at, error=outcome.error)
        case "released":
            return _change(job, "released", run_at=job.run_at, error=job.last_error)
        case "snoozed":
            run_at, error = later(now, outcome.delay or timedelta(0)), outcome.error or job.last_error
            return _change(job, "snoozed", run_at=run_at, error=error, waits_for=outcome.waits_for)
        case "lost":
            return _after_loss(job, outcome, now=now)
        case "failed" | "timed_out":
            return _after_failure(job, outcome, now=now, roll=roll)


def _after_failure(job: Job, outcome: Outcome, *, now: datetime, roll: float) -> Change:
    failures = job.attempt + 1
    if job.held == LOCAL:
        return _change(job, "cancelled", run_at=job.run_at, failures=1, error=outcome.error)
    undecided = job.retry.kind == "external" and outcome.delay is None and job.retry.gives_up
    if outcome.final or undecided or failures >= job.max_attempts:
        return _change(job, "exhausted", run_at=job.run_at, failures=1, error=outcome.error)
    wait = outcome.delay if outcome.delay is not None else job.retry.wait(failures, roll)
    run_at = later(job.run_at if outcome.from_run_at else now, wait)
    if run_at <= now:
        run_at = later(now, wait)  # lateness must not turn a retry into an immediate one (C-12)
    return _change(job, "failed", run_at=run_at, failures=1, error=outcome.error)


def _after_loss(job: Job, outcome: Outcome, *, now: datetime) -> Change:
    losses = job.attempt + 1
    if job.held == LOCAL or outcome.final:
        error = outcome.error or f"lost: {job.worker_id} fell silent"
        return _change(job, "cancelled", run_at=job.run_at, failures=1, error=error)
    if losses >= max(job.max_attempts, LOSSES_ALWAYS_FORGIVEN):
        error = f"worker_died_{losses}_times: each attempt ended without a word from its worker"
        return _change(job, "exhausted", run_at=job.run_at, failures=1, error=error)
    error = f"lost: worker {job.worker_id} fell silent and its lease ran out"
    return _change(job, "lost", run_at=now, failures=1, error=error)


def _change(
    job: Job,
    event: str,
    *,
    run_at: datetime,
    failures: int = 0,
    error: str | None = None,
    waits_for: str | None = None,
) -> Change:
    state = JOB.after("running", event)
    return _make_change(event, state, job.attempt + failures, run_at, error, waits_for)


def settlement(job: Job, outcome: Outcome, *, now: datetime, roll: float) -> Settlement:
    """Return the ending of a held job, ready for the store; with its audit entry where the job dies."""
    change = after(job, outcome, now=now, roll=roll)
    holds_name = job.unique is not None and job.holds_name
    if outcome.ending == "succeeded":  # neither lost nor dead, as almost all
        return _make_settlement(job.number, job.token, outcome, change, holds_name, job.has_dependents)
    return _make_settlement(
        job.number,
        job.token,
        outcome,
        change,
        holds_name,
        job.has_dependents,
        now if outcome.ending == "lost" else None,
        _death(job, change, now) if change.state == "dead" else None,
    )


def not_kept(why: str) -> str:
    """Say of a job that succeeded why its result could not be kept."""
    return f"{NOT_KEPT}: the job succeeded, but its result could not be kept. {why}"


def _death(job: Job, change: Change, now: datetime) -> Entry:
    from horae.core.jobs.masking import mask_text, secrets_of  # which stands on this module

    error = None if change.error is None else mask_text(change.error, secrets_of(job.payload))
    if job.object_type is not None:
        error = None  # it may speak of a person: the entry about the object has it, where it can be erased
    return Entry(
        at=now,
        actor=f"worker/{job.worker_id}",
        verb="dead",
        object_type="job",
        object_id=job.id,
        owner=job.owner,
        reason=error,
        before={"state": "running", "attempt": job.attempt, "token": job.token},
        after={"state": "dead", "attempt": change.attempt, "handler": job.handler, "queue": job.queue},
        evidence=(f"run:{job.run_id}",),
    )


def is_silent(job: Job, stale_timeout: timedelta, now: datetime) -> bool:
    """Return whether a running job has reported no progress for longer than its definition allows."""
    seen = max((moment for moment in (job.started_at, job.progressed_at) if moment is not None), default=job.created_at)
    return job.state == "running" and now - seen > stale_timeout


def renewal_pause(lease: timedelta) -> timedelta:
    """Return how often to renew a lease: at a third, so that two renewals may fail before it is lost."""
    return lease / 3


def check_run_at(run_at: datetime, *, now: datetime, strict: bool) -> None:
    """Refuse a past due time where the door is strict; elsewhere a late job simply runs at once."""
    from_past = now - run_at
    if strict and from_past > PAST_TOLERANCE:
        raise PastDue("run_at_passed", run_at=iso(run_at), now=iso(now))
