"""A worker's side of jobs in this process, on behalf of a caller: claim, peek, show progress, keep steps, spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from horae.actions.jobs import claims, steps
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.held_jobs import peek_held
from horae.api.here import Here
from horae.core.checks import whole_number
from horae.core.dataclass import dataclass
from horae.core.jobs.job import Job, Lease
from horae.core.jobs.machinery import queue_name, refuse_own
from horae.core.jobs.payloads import label
from horae.core.jobs.steps import StepResult
from horae.core.time.instants import aware
from horae.core.time.spans import span
from horae.core.values import PYDANTIC
from horae.errors import InvalidInput
from horae.ports.workers import Drain, Node
from horae.ports.world import World

if TYPE_CHECKING:
    from horae.core.governance.budgets import Spending

MOST_PID = 2**31 - 1
MOST_QUEUES = 100
MOST_CLAIMED = 20  # queues of one claim
MOST_MEMORY = 2**60
MOST_LAG = 86_400  # seconds
V = TypeVar("V", int, float)

WorkerState = Literal["running", "draining", "drained", "stopping", "ended"]

LONGEST_WAIT = timedelta(seconds=30)  # for which a claim is held open


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
    due, stopping, drain = peek_held(
        here.world, queues, node=node, node_id=node_id, worker_id=worker_id, **here.reach
    )  # fmt: skip
    return Upcoming(due_in=due, cancelled=tuple(stopping), drain=drain)


def check_queues(queues: Sequence[str]) -> tuple[str, ...]:
    """Return the queues of a claim, each once."""
    names = tuple(dict.fromkeys(queues))
    whole_number(len(names), "the number of queues", 1, MOST_CLAIMED)
    return names


def check_wait(wait: timedelta) -> timedelta:
    """Return how long a claim may be held open; a service holds none for longer."""
    if not timedelta(0) <= wait <= LONGEST_WAIT:
        most = LONGEST_WAIT.total_seconds()
        raise InvalidInput("out_of_range", name="wait", value=wait.total_seconds(), least=0, most=most)
    return wait


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


def recall_step(
    world: World, job_id: str, token: int, name: str, *, owner: str | None, queues: frozenset[str]
) -> StepResult:
    job = verbs.get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    known = steps.recall_step(world, Lease(job.number, token), name)
    return StepResult(kept=False) if known is None else StepResult(kept=True, value=known.value)


def keep_step(
    world: World, job_id: str, token: int, name: str, value: Any, *, owner: str | None, queues: frozenset[str]
) -> StepResult:
    job = verbs.get(world, job_id, owner=owner, queues=queues)
    refuse_own(job)
    return StepResult(kept=True, value=steps.keep_step(world, Lease(job.number, token), name, value))


def claim(here: Here, worker_id: str, queues: tuple[str, ...], limit: int, lease: timedelta) -> list[Job]:
    for queue in queues:
        here.caller.require_queue(queue)
    return claims.pull(here.world, worker_id=worker_id, queues=queues, limit=limit, lease=lease, owner=here.caller.sees)
