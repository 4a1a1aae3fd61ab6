"""The verbs of a worker without a database: end and renew several jobs at once, with an answer for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, get_args

from horae.actions.jobs.claims import DEFAULT_LEASE, MAX_PULL, check_lease, peek, renew
from horae.actions.jobs.endings import lose_expired, settle
from horae.actions.jobs.jobs import is_in_reach, truncate
from horae.actions.shards import AWAY, ask_all
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.governance.budgets import amounts_from
from horae.core.jobs.job import SYSTEM, Job, Lease, Outcome, State, job_number
from horae.core.jobs.lines import MOST_LINES, Lines, LogLine, bound, log_line, mask_lines
from horae.core.jobs.machinery import MACHINERY
from horae.core.jobs.masking import secrets_of
from horae.core.jobs.payloads import encode, label
from horae.core.time.instants import aware
from horae.errors import InvalidInput, NotFound, StoreError
from horae.ports.claims import Renewed
from horae.ports.store import Tx
from horae.ports.workers import Drain, Node
from horae.ports.world import World

log = logging.getLogger("horae.jobs")
ASK_AGAIN = timedelta(milliseconds=500)  # shorter than the longest sleep of an idle worker that hears no hints
MOST_DROPPED = 2**31 - 1
EndingOutcome = Literal["succeeded", "failed", "timed_out", "snoozed", "cancelled", "released"]
OUTCOMES: tuple[EndingOutcome, ...] = get_args(EndingOutcome)


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of an attempt, as the holder of the job reports it."""

    job_id: str
    token: int
    outcome: EndingOutcome
    error: str | None = None
    result: Any = None
    delay: timedelta | None = None  # before the next attempt, or how long to snooze
    final: bool = False  # a failure that must not be tried again
    next_action_at: datetime | None = None
    audit_event_id: str | None = None
    spent: dict[str, int] | None = None  # what the attempt has cost, by unit; empty: nothing has begun
    lines: tuple[LogLine, ...] = ()  # what the handler has logged; the last 200 lines and 64 KiB are kept
    lines_dropped: int = 0  # earlier lines that were not sent


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer to one ending: accepted with the job's new state, or refused because the job has another holder.

    Refused with the state ``running``: it could not be written now; send it again.
    """

    job_id: str
    accepted: bool
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A job and the token with which it is held."""

    job_id: str
    token: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """Whether a job is still held, whether its row was locked just now, and whether its holder is asked to stop."""

    job_id: str
    held: bool
    busy: bool = False
    cancel_requested: bool = False


def peek_held(
    world: World,
    served: Sequence[str],
    *,
    node: Node | None = None,
    node_id: str | None = None,
    worker_id: str | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> tuple[timedelta | None, list[str], Drain | None]:
    """Return in how long a claim may find something, which jobs of a worker should stop, and whether it should drain.

    A span and no instant, because the worker's clock may differ. A tenant learns nothing about when other tenants' jobs
    are due, and gets a short span instead. Expired leases are taken back on the way: where all workers use HTTP, no
    other process would notice that one of them fell silent.
    """
    upcoming = peek(world, served, node=node, node_id=node_id, worker_id=worker_id)
    expiry = upcoming.next_expiry_at
    if expiry is not None and expiry < world.clock.now() and lose_expired(world):
        upcoming = peek(world, served, node_id=node_id, worker_id=worker_id)
    due = None if upcoming.next_due_at is None else upcoming.next_due_at - world.clock.now()
    due = due if owner is None else ASK_AGAIN
    asked = _some(world, upcoming.cancelled) if upcoming.cancelled else []
    return due, [job.id for job in asked if is_in_reach(job, owner, queues)], upcoming.drain


def _some(world: World, numbers: Collection[int]) -> list[Job]:
    """Return live jobs, of whatever database that answers."""
    found = ask_all(world, lambda shard: shard.route().store.read(lambda tx: tx.jobs.some(numbers)))
    return [job for each in found for job in each]


def settle_held(
    world: World,
    endings: Sequence[Ending],
    *,
    by: str | None = None,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> list[Settled]:
    """End jobs in one transaction; an ending that is late, or for a job with another holder, stops no other.

    In a cluster there is one transaction for each database. Endings for one that is away are to be sent again.
    """
    page_size(len(endings), MAX_PULL)
    if world.cluster is not None:

        def end(shard: World, few: Sequence[Ending]) -> list[Settled]:
            done = settle_held(shard, few, by=by, owner=owner, queues=queues)
            return [
                replace(answer, state="running")
                if not answer.accepted and answer.state is None and _is_elsewhere(world, each.job_id, each.token)
                else answer
                for each, answer in zip(few, done, strict=True)
            ]

        return _by_shard(world, endings, end, lambda each: Settled(each.job_id, accepted=False, state="running"))
    found = _held(world, {each.job_id: each.token for each in endings}, owner, queues)
    outcomes = [
        (found[each.job_id], _outcome(world, found[each.job_id], each, by)) for each in endings if each.job_id in found
    ]
    changes = settle(world, outcomes) if outcomes else {}
    return [_answer(each, found, changes) for each in endings]


def recognise(world: World, endings: Sequence[Ending], settled: Sequence[Settled]) -> list[Settled]:
    """Return the answers with those accepted that the store has already: the same outcome, by the same token.

    For messages that may come twice. A refused ending whose attempt ended otherwise stays refused.
    """
    return [
        _known_ending(world, ending) or answer if not answer.accepted and answer.state is None else answer
        for ending, answer in zip(endings, settled, strict=True)
    ]


def _known_ending(world: World, ending: Ending) -> Settled | None:
    number = _number(ending.job_id)
    if number is None:
        return None

    def find(tx: Tx) -> Settled | None:
        job = tx.jobs.get(number)
        same = [run for run in tx.jobs.runs(number) if (run.token, run.outcome) == (ending.token, ending.outcome)]
        if job is None or not same:
            return None
        return Settled(ending.job_id, True, job.state if job.token == ending.token else "queued")

    return world.route(id=ending.job_id).store.read(find)


def renew_held(
    world: World,
    holds: Sequence[Hold],
    *,
    lease: timedelta = DEFAULT_LEASE,
    by: str = SYSTEM,
    owner: str | None = None,
    queues: Collection[str] = (),
) -> list[Renewal]:
    """Extend the leases of jobs, counted from now; *by* is who does it, for entries about objects."""
    page_size(len(holds), MAX_PULL)
    check_lease(lease)
    if world.cluster is not None:

        def extend(shard: World, few: Sequence[Hold]) -> list[Renewal]:
            done = renew_held(shard, few, lease=lease, by=by, owner=owner, queues=queues)
            return [
                replace(answer, busy=True)
                if not (answer.held or answer.busy) and _is_elsewhere(world, each.job_id, each.token)
                else answer
                for each, answer in zip(few, done, strict=True)
            ]

        return _by_shard(world, holds, extend, lambda each: Renewal(each.job_id, held=False, busy=True))
    found = _held(world, {each.job_id: each.token for each in holds}, owner, queues)
    renewed = renew_with_entries(world, list(found.values()), lease=lease, by=by)
    numbers = {job_id: job.number for job_id, job in found.items()}
    return [
        Renewal(
            each.job_id,
            held=numbers.get(each.job_id) in renewed.held,
            busy=numbers.get(each.job_id) in renewed.busy,
            cancel_requested=numbers.get(each.job_id) in renewed.cancelled,
        )
        for each in holds
    ]


def renew_with_entries(world: World, jobs: Sequence[Job], *, lease: timedelta, by: str) -> Renewed:
    """Extend leases; those of jobs that name an object leave an entry in the same transaction."""
    plain = [Lease(job.number, job.token) for job in jobs if job.object_type is None]
    named = [job for job in jobs if job.object_type is not None]
    done = renew(world, plain, lease=lease) if plain or not named else Renewed(frozenset(), frozenset())
    if not named:
        return done
    from horae.actions.governance.entries import renew_about_objects

    governed = renew_about_objects(world, named, lease=lease, by=by)
    return Renewed(done.held | governed.held, done.cancelled | governed.cancelled, done.busy)


Named = TypeVar("Named", Ending, Hold)
Answered = TypeVar("Answered", Settled, Renewal)


def _by_shard(
    world: World,
    items: Sequence[Named],
    act: Callable[[World, Sequence[Named]], list[Answered]],
    away: Callable[[Named], Answered],
) -> list[Answered]:
    """Act on the items of each database of a cluster; answer all in order, those of one that is away by *away*."""
    shards: dict[int, tuple[World, list[int]]] = {}
    answers: dict[int, Answered] = {}
    for index, item in enumerate(items):
        try:
            [shard] = world.within(id=item.job_id)
            shards.setdefault(id(shard.route().store), (shard, []))[1].append(index)
        except AWAY:
            answers[index] = away(item)
    for shard, indexes in shards.values():
        few = [items[index] for index in indexes]
        try:
            answers |= zip(indexes, act(shard, few), strict=True)
        except StoreError as problem:
            log.warning("%d jobs that a worker holds wait for their database: %s", len(few), problem)
            answers |= {index: away(items[index]) for index in indexes}
    return [answers[index] for index in range(len(items))]


def _is_elsewhere(world: World, job_id: str, token: int) -> bool:
    """Return whether a job that was not found is held in another database by now, or on the way to one."""
    number = _number(job_id)
    if number is None:
        return False
    try:
        found = world.route(id=job_id).store.read(lambda tx: tx.jobs.some([number]))
    except StoreError:
        return True
    return any(job.state == "running" and job.token == token for job in found)


def _held(world: World, tokens: dict[str, int], owner: str | None, queues: Collection[str]) -> dict[str, Job]:
    """Return the jobs that run with these tokens and that the caller may see."""
    numbers = {number: job_id for job_id in tokens if (number := _number(job_id)) is not None}
    found = world.route(owner=owner).store.read(lambda tx: tx.jobs.some(numbers))
    return {
        numbers[job.number]: job
        for job in found
        if job.state == "running"
        and job.token == tokens[numbers[job.number]]
        and job.queue != MACHINERY
        and is_in_reach(job, owner, queues)
    }


def _number(job_id: str) -> int | None:
    try:
        return job_number(job_id)
    except NotFound:  # its own answer says that it is not held
        return None


def _outcome(world: World, job: Job, ending: Ending, by: str | None) -> Outcome:
    if ending.delay is not None and ending.delay < timedelta(0):
        raise InvalidInput("delay_negative", delay=ending.delay.total_seconds())
    error = None if ending.error is None else truncate(ending.error)
    result = None if ending.result is None else encode(ending.result, "result", world.max_payload_bytes)
    return Outcome(
        ending.outcome,
        error=error,
        result=result,
        delay=ending.delay,
        final=ending.final,
        next_action_at=None if ending.next_action_at is None else aware(ending.next_action_at, "next_action_at"),
        audit_event_id=None if ending.audit_event_id is None else label(ending.audit_event_id, "audit event id", 100),
        spent=None if ending.spent is None else amounts_from(ending.spent),
        by=by,
        lines=_lines(job, ending),
    )


def _lines(job: Job, ending: Ending) -> Lines | None:
    """Return what a handler has logged as it is kept; lines are cut, and never a reason to refuse an ending."""
    if not ending.lines:
        return None
    given = [log_line(aware(each.at, "at"), each.level, each.text) for each in ending.lines[-MOST_LINES:]]
    cut = max(0, min(ending.lines_dropped, MOST_DROPPED)) + max(0, len(ending.lines) - MOST_LINES)
    return bound(mask_lines(given, secrets_of(job.payload)), cut)


def _answer(ending: Ending, found: dict[str, Job], changes: dict[str, Any]) -> Settled:
    job = found.get(ending.job_id)
    if job is None:
        return Settled(ending.job_id, accepted=False)
    if job.id not in changes:
        return Settled(ending.job_id, accepted=False, state="running")
    change = changes[job.id]
    return Settled(ending.job_id, change is not None, None if change is None else change.state)
