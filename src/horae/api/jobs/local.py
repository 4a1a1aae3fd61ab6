"""The operations of jobs in this process, on behalf of a caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from horae.actions.consistency import moment
from horae.actions.jobs import claims, lists
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.keys import stored_key
from horae.actions.jobs.masking import mask_for_readers
from horae.actions.jobs.quotas import enqueue_within
from horae.actions.jobs.requests import Enqueued, Request
from horae.api.here import Here
from horae.core.cursors import LARGEST, cursor_from, read_cursor
from horae.core.jobs.job import Filter, Job, Lease, Run
from horae.core.jobs.machinery import queue_name, refuse_own
from horae.core.jobs.payloads import label, name
from horae.core.jobs.retry import span
from horae.core.time.instants import aware
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput
from horae.ports import Drain, End, Node, World

if TYPE_CHECKING:
    from horae.actions.jobs.queries import GroupCounts, Related
    from horae.core.governance.budgets import Spending
    from horae.core.jobs.reasons import Reason

REVIVED_AT_ONCE = 1000
MOST_PID = 2**31 - 1
MOST_QUEUES = 100
MOST_MEMORY = 2**60
MOST_LAG = 86_400  # seconds
V = TypeVar("V", int, float)


@dataclass(frozen=True, kw_only=True)
class Revived:
    """The number of dead jobs that matched, and the results; ``more`` if one call could not handle them all."""

    matched: int
    revived: int
    dry_run: bool
    more: bool
    refused: dict[str, str]


WorkerState = Literal["running", "draining", "drained", "stopping", "ended"]


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """A worker that takes its jobs over HTTP, as it is listed among the workers.

    *busy* counts its slots in use by queue, *loop_lag* is the longest wait of its event loop since the last heartbeat,
    *memory* the bytes that it takes.
    """

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    queues: dict[str, int] = field(default_factory=dict)
    state: WorkerState = "running"
    release: str | None = None
    busy: dict[str, int] | None = None
    loop_lag: timedelta | None = None
    memory: int | None = None


@dataclass(frozen=True, kw_only=True)
class Upcoming:
    """In how long the next job is due, None where none is known; and the jobs that were asked to stop.

    ``drain`` asks the worker to claim nothing more, and then to ``stay`` until it is None again, or to ``leave``.
    """

    __pydantic_config__ = PYDANTIC

    due_in: timedelta | None = None
    cancelled: tuple[str, ...] = ()
    drain: Drain | None = None


def peek(
    here: Here, queues: tuple[str, ...], worker_id: str | None, worker: Heartbeat | None, node_id: str | None
) -> Upcoming:
    for queue in queues:
        here.caller.require_queue(queue_name(queue))
    node = None
    if not here.caller.is_operator:  # the list of workers is the house's
        worker, node_id = None, None
    if worker is not None:
        node = _node(here.world, worker)
        if worker.state == "ended":
            claims.leave(here.world, node.node_id)
            node = None
    from horae.actions.jobs.held_jobs import peek_held

    due, stopping, drain = peek_held(
        here.world, queues, node=node, node_id=node_id, worker_id=worker_id, **here.reach
    )  # fmt: skip
    return Upcoming(due_in=due, cancelled=tuple(stopping), drain=drain)


def _node(world: World, worker: Heartbeat) -> Node:
    if not 0 <= worker.pid <= MOST_PID:
        raise InvalidInput("out_of_range", name="pid", value=worker.pid, least=0, most=MOST_PID)
    if len(worker.queues) > MOST_QUEUES:
        raise InvalidInput("too_many_worker_queues", count=len(worker.queues), most=MOST_QUEUES)
    return Node(
        label(worker.id, "worker id", 200),
        label(worker.host, "host", 200),
        worker.pid,
        label(worker.version, "version", 50),
        aware(worker.started_at, "started_at"),
        world.clock.now(),
        {queue_name(queue): slots for queue, slots in worker.queues.items()},
        worker.state,
        None if worker.release is None else label(worker.release, "release", 100),
        None if worker.busy is None else _counts(worker.busy, "busy"),
        None if worker.loop_lag is None else span(_within(worker.loop_lag.total_seconds(), "loop_lag", MOST_LAG)),
        None if worker.memory is None else _within(worker.memory, "memory", MOST_MEMORY),
    )


def _counts(counts: dict[str, int], what: str) -> dict[str, int]:
    if len(counts) > MOST_QUEUES:
        raise InvalidInput("too_many_worker_queues", count=len(counts), most=MOST_QUEUES)
    return {queue_name(queue): _within(count, what, MOST_PID) for queue, count in counts.items()}


def _within(value: V, what: str, most: int) -> V:
    if not 0 <= value <= most:
        raise InvalidInput("out_of_range", name=what, value=value, least=0, most=most)
    return value


def note_progress(
    world: World, job_id: str, token: int, *, value: Any, checkpoint: Any, owner: str | None, queues: frozenset[str]
) -> Job:
    job = verbs.get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    hold = Lease(job.number, token)
    if checkpoint is not None:
        claims.checkpoint(world, hold, checkpoint)
    if value is not None or checkpoint is None:
        claims.progress(world, hold, value)
    return verbs.get(world, job_id)


def spend(
    world: World,
    job_id: str,
    token: int,
    cost: Mapping[str, int],
    key: str,
    *,
    owner: str | None,
    queues: frozenset[str],
) -> Spending:
    job = verbs.get(world, job_id, owner=owner, queues=queues)
    from horae.actions.budgets import spending

    return spending.spend(world, Lease(job.number, token), cost, key=key)


def report_spent(
    world: World,
    job_id: str,
    token: int,
    *,
    cost: Mapping[str, int],
    key: str | None,
    owner: str | None,
    queues: frozenset[str],
) -> Job:
    job = verbs.get(world, job_id, owner=owner, queues=queues)
    from horae.actions.budgets import spending

    spending.report(world, Lease(job.number, token), cost, key=key)
    return verbs.get(world, job_id)


def claim(here: Here, worker_id: str, queues: tuple[str, ...], limit: int, lease: timedelta) -> list[Job]:
    for queue in queues:
        here.caller.require_queue(queue)
    return claims.pull(here.world, worker_id=worker_id, queues=queues, limit=limit, lease=lease, owner=here.caller.sees)


def enqueue(here: Here, requests: list[Request]) -> list[Enqueued]:
    """Store jobs for the caller: its queues, its limit of unfinished jobs, its own parents."""
    caller, allowed = here.caller, 0 if here.caller.is_operator else here.max_unfinished_jobs
    for request in requests:
        caller.require_queue(request.queue)
    for parent in sorted({each for request in requests for each in request.after}):
        verbs.get(here.world, parent, **here.reach)  # waiting for another tenant's job would reveal its state
    owned = [_with_owner(request, caller.owner) for request in requests]
    return enqueue_within(
        here.world, owned, owner=caller.owner, allowed=allowed, queues=caller.queues, actor=here.actor
    )


def _with_owner(request: Request, owner: str) -> Request:
    if owner == request.owner:
        return request
    return replace(request, owner=owner, concurrency_key=stored_key(owner, request.concurrency_key))


def find(
    here: Here, wanted: Filter, where: str | None, cursor: str | None, limit: int, before: str | None = None
) -> tuple[list[Job], str | None]:
    """Return one page of the jobs that the caller sees, those older than *before*; a cursor wins over it.

    *where* is a filter in words; it narrows *wanted*.
    """
    if where is not None:
        from horae.core.jobs.filters import narrow, parse_filter

        wanted = narrow(wanted, parse_filter(where, now=here.world.clock.now()))
    wanted = _check_filter(here, wanted)
    after: str | End | None = before
    if cursor is not None and before is None and lists.is_by_end(wanted):
        end, number = read_cursor(cursor, int, int, most=LARGEST - 1) or (0, 0)
        after = (end, number)
    elif at := read_cursor(cursor, int, least=1, most=LARGEST - 1):
        after = f"job_{at[0]}"
    found, further = verbs.find_page(here.world, wanted, limit=limit, before=after)
    if further is None:
        return found, None
    return found, cursor_from([further] if isinstance(further, int) else list(further))


def count_groups(here: Here, wanted: Filter, where: str | None) -> GroupCounts:
    """Count the jobs that the caller sees by state, queue and handler."""
    from horae.actions.jobs.queries import count_groups
    from horae.core.jobs.filters import narrow, parse_filter

    if where is not None:
        from horae.core.jobs.filters import narrow, parse_filter

        wanted = narrow(wanted, parse_filter(where, now=here.world.clock.now()))
    return count_groups(here.world, _check_filter(here, wanted))


def related(here: Here, job_id: str) -> Related:
    """Return what a job belongs to."""
    from horae.actions.jobs.queries import related

    return related(here.world, job_id, **here.reach)


def _check_filter(here: Here, wanted: Filter) -> Filter:
    """Return a filter limited to what the caller sees; a value that no job can have is refused."""
    return replace(
        wanted,
        owner=here.caller.filter_owner(wanted.owner),
        queues=tuple(sorted(here.caller.queues)),
        queue=None if wanted.queue is None else name(wanted.queue, "queue"),
        handler=None if wanted.handler is None else name(wanted.handler, "handler", 200),
        tag=None if wanted.tag is None else label(wanted.tag, "tag", 100),
        key=None if wanted.key is None else label(wanted.key, "key"),
        object_type=None if wanted.object_type is None else label(wanted.object_type, "object_type"),
        object_id=None if wanted.object_id is None else label(wanted.object_id, "object_id"),
    )


def runs(here: Here, job_id: str) -> list[Run]:
    """Return the attempts at a job, without the sensitive values of its payload in their errors."""
    found = verbs.runs(here.world, job_id, **here.reach)
    if not any(run.error or run.result for run in found):
        return found
    return mask_for_readers(here.world, found, about=verbs.get(here.world, job_id, **here.reach).payload)


def reasons(here: Here, job_id: str) -> tuple[Reason, ...]:
    return explain(here, job_id)[1]


def explain(here: Here, job_id: str) -> tuple[Job, tuple[Reason, ...]]:
    """Return a job and the reasons for its state, read in one moment."""
    from horae.actions.jobs.reasons import why as explain_job

    with moment(here.world):
        job = mask_for_readers(here.world, [verbs.get(here.world, job_id, **here.reach)])[0]
        return job, explain_job(here.world, job, owner=here.caller.sees)


def revive_many(here: Here, wanted: Filter, dry_run: bool, reason: str) -> Revived:
    found = _find_first(here, _check_filter(here, wanted))
    answers: dict[str, str] = {}
    if not dry_run:
        ids = [job.id for job in found[:REVIVED_AT_ONCE]]
        answers = verbs.each(here.world, verbs.revive, ids, actor=here.actor, reason=reason, **here.reach)
    return Revived(
        matched=min(len(found), REVIVED_AT_ONCE),
        revived=sum(answer == "ok" for answer in answers.values()),
        refused={job_id: answer for job_id, answer in answers.items() if answer != "ok"},
        dry_run=dry_run,
        more=len(found) > REVIVED_AT_ONCE,
    )


def _find_first(here: Here, wanted: Filter) -> list[Job]:
    """Return as many jobs as one call handles, and one more if there are more."""
    found = verbs.find(here.world, wanted, limit=REVIVED_AT_ONCE)
    return found + (
        verbs.find(here.world, wanted, limit=1, before=found[-1].id) if len(found) == REVIVED_AT_ONCE else []
    )
