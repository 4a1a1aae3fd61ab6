"""``/jobs``, a worker's side: claim, renew, and say how it ended."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import BackgroundTasks, Request
from fastapi.responses import Response
from pydantic import Field

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.claims import MAX_PULL
from horae.actions.jobs.held_jobs import Ending, Hold, Renewal, Settled
from horae.api.jobs.held import Heartbeat, Upcoming, check_queues, check_wait
from horae.api.jobs.room import HTTP_LEASE, Job, Jobs
from horae.api.operation import Page
from horae.api.values import to_public
from horae.core.access.callers import Caller
from horae.core.governance.budgets import Spending
from horae.core.jobs import job as core
from horae.core.jobs.parents import ParentResult
from horae.core.jobs.steps import StepResult
from horae.ports.world import World
from horae.service.fields import Instant, LeaseField, OperationBody, SpanField, Token, WaitField
from horae.service.inputs import AuditReason, JobId
from horae.service.long_poll import Want, take, waiting_room_of
from horae.service.models import Model, model_of, value_of
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router
from horae.service.state import service_of, world_of
from horae.service.threads import on_thread

router = make_router(prefix="/jobs", tags=["workers"])
DEFAULT_LEASE = HTTP_LEASE.total_seconds()
if TYPE_CHECKING:
    EndingBody = Model
    HoldBody = Model
    HeartbeatBody = Model
else:
    EndingBody = model_of(Ending, "Ending")
    HoldBody = model_of(Hold, "Hold")
    HeartbeatBody = model_of(Heartbeat, "Heartbeat")


class Claim(OperationBody):
    """The queues to claim from, the number of jobs, and the length of the lease."""

    worker_id: Annotated[str, Field(min_length=1, max_length=200, examples=["worker-1"])]
    queues: list[Annotated[str, Field(max_length=100)]] = Field(default=["default"], min_length=1, max_length=20)
    limit: Annotated[int, Field(ge=1, le=MAX_PULL)] = 100
    lease: LeaseField = Field(default=DEFAULT_LEASE, description="Seconds for which the jobs are yours.")
    wait: WaitField = Field(default=0, description="Seconds to wait for a job when none is due.")


class Peek(OperationBody):
    queues: list[Annotated[str, Field(max_length=100)]] = Field(default=[], max_length=100)
    worker_id: Annotated[str, Field(max_length=200)] | None = None
    worker: HeartbeatBody | None = Field(default=None, description="Lists the caller among the workers.")
    node_id: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="The caller's id on that list: the answer says whether it was asked to drain."
    )


class Renew(OperationBody):
    holds: Annotated[list[HoldBody], Field(min_length=1, max_length=MAX_PULL)]
    lease: LeaseField = Field(default=DEFAULT_LEASE, description="Seconds, counted from now.")


class Settle(OperationBody):
    endings: Annotated[list[EndingBody], Field(min_length=1, max_length=MAX_PULL)]


class Held(OperationBody):
    token: Token


Amounts = Annotated[
    dict[str, int],
    Field(max_length=3, description="Whole numbers of calls, tokens, micros.", examples=[{"tokens": 800}]),
]
Spent = Annotated[
    Amounts | None,
    Field(description="What the attempt has cost; what was reserved counts, unless given. Empty: nothing has begun."),
]


class Ack(Held):
    spent: Spent = None
    result: Any = None
    next_action_at: Instant | None = None
    audit_event_id: Annotated[str, Field(max_length=100)] | None = None


class Fail(Held):
    spent: Spent = None
    error: Annotated[str, Field(max_length=100_000)]
    retry_delay: SpanField | None = Field(
        default=None, description="Seconds until the next try; else the job's policy."
    )
    final: bool = Field(default=False, description="Do not try again: straight to the dead letters.")


class Release(Held):
    reason: AuditReason = ""
    spent: Spent = None


class Spend(Held):
    """What the next step may cost."""

    cost: Amounts
    key: Annotated[str, Field(min_length=1, max_length=200, examples=["page-3"])]


class ReportSpent(Held):
    """What a step has cost, or, without a key, the attempt as a whole so far."""

    cost: Amounts
    key: Annotated[str, Field(min_length=1, max_length=200)] | None = None


StepName = Annotated[str, Field(min_length=1, max_length=255, examples=["charge"])]


class RecallStep(Held):
    name: StepName


class KeepStep(Held):
    name: StepName
    value: Any = Field(default=None, description="What the step has returned, as any JSON.")


class Progress(Held):
    value: Any = Field(default=None, description="How far it is, as any JSON.", examples=[{"done": 3, "of": 10}])
    checkpoint: Any = Field(default=None, description="What a later attempt needs to go on from here.")


@router.post(
    "/claim", operation_id="claim", summary="Take due jobs under a lease", response_model=Page[Job],
    responses=refuses(409),
)  # fmt: skip
async def claim(body: Claim, request: Request, rooms: CallerRooms = rooms_for(Jobs.claim)) -> Response:
    """Returns what is due and marks it running. With `wait` it answers as soon as there is something, or with nothing
    when the time is up; with 401 when its token is revoked or expires meanwhile.
    """
    caller, service = request.state.caller, service_of(request)
    queues = check_queues(body.queues)
    for queue in queues:
        caller.require_queue(queue)
    want = Want(body.worker_id, queues, body.limit, timedelta(seconds=body.lease), caller.sees)
    patience = min(check_wait(timedelta(seconds=body.wait)), service.options.longest_wait)
    return answer(to_public(tuple[Job, ...], await claim_or_wait(world_of(request), want, caller, request, patience)))


@router.post("/peek", operation_id="peek", summary="When is the next job due", response_model=Upcoming)
async def peek(body: Peek, rooms: CallerRooms = rooms_for(Jobs.peek)) -> Response:
    """For workers: `due_in` is in seconds, `null` where nothing is known to become due; `cancelled` are jobs of
    `worker_id` that were asked to stop; `drain` asks the worker `node_id` to claim nothing more, and then to `stay`
    until it is resumed or to `leave`. Claims nothing.
    """
    worker = None if body.worker is None else value_of(Heartbeat, body.worker)
    return answer(await rooms.jobs.peek(body.queues, worker_id=body.worker_id, worker=worker, node_id=body.node_id))


@router.post("/renew", operation_id="renew", summary="Keep jobs for longer", response_model=Page[Renewal])
async def renew(body: Renew, rooms: CallerRooms = rooms_for(Jobs.renew)) -> Response:
    """Renew at a third of the lease. `held: false` means that another worker has the job now; `cancel_requested` asks
    you to stop; `busy` that its row was locked: renew again in a moment.
    """
    return answer(await rooms.jobs.renew([value_of(Hold, each) for each in body.holds], lease=body.lease))


@router.post("/settle", operation_id="settle", summary="Say how attempts ended", response_model=Page[Settled])
async def settle(
    body: Settle, request: Request, later: BackgroundTasks, rooms: CallerRooms = rooms_for(Jobs.settle)
) -> Response:
    """Each ending is answered by itself. `accepted: false`: another worker has the job now, or it has ended."""
    settled = await rooms.jobs.settle([value_of(Ending, each) for each in body.endings])
    report_dead(request, later, [each.job_id for each in settled if each.state == "dead"])
    return answer(settled)


@router.post(
    "/{job_id}/ack", operation_id="ack", summary="The job is done", response_model=Job, responses=refuses(404, 409)
)
async def ack(job_id: JobId, body: Ack, rooms: CallerRooms = rooms_for(Jobs.ack)) -> Response:
    """409 `lease_lost` means that another worker holds the job now; drop the result."""
    due, link = body.next_action_at, body.audit_event_id
    done = await rooms.jobs.ack(
        job_id, body.token, result=body.result, next_action_at=due, audit_event_id=link, spent=body.spent
    )
    return answer(done)


@router.post(
    "/{job_id}/fail", operation_id="fail", summary="The attempt failed", response_model=Job, responses=refuses(404, 409)
)
async def fail(
    job_id: JobId, body: Fail, request: Request, later: BackgroundTasks, rooms: CallerRooms = rooms_for(Jobs.fail)
) -> Response:
    """The job is retried by its policy or after `retry_delay`; it is dead when its attempts are used up."""
    job = await rooms.jobs.fail(job_id, **body.model_dump())
    report_dead(request, later, [job.id] if job.state == "dead" else [])
    return answer(job)


@router.post(
    "/{job_id}/release", operation_id="release", summary="Give the job back to its queue", response_model=Job,
    responses=refuses(404, 409),
)  # fmt: skip
async def release(job_id: JobId, body: Release, rooms: CallerRooms = rooms_for(Jobs.release)) -> Response:
    """The job is due again at once, and no attempt is counted."""
    return answer(await rooms.jobs.release(job_id, body.token, reason=body.reason, spent=body.spent))


@router.post(
    "/{job_id}/progress", operation_id="progress", summary="Show how far the job is", response_model=Job,
    responses=refuses(404, 409),
)  # fmt: skip
async def progress(job_id: JobId, body: Progress, rooms: CallerRooms = rooms_for(Jobs.progress)) -> Response:
    """And keep in `checkpoint` what a later attempt needs to go on from there."""
    return answer(await rooms.jobs.progress(job_id, **body.model_dump()))


@router.post(
    "/{job_id}/steps/recall", operation_id="recall_step", summary="What a step has returned, if it has run",
    response_model=StepResult, responses=refuses(404, 409),
)  # fmt: skip
async def recall_step(job_id: JobId, body: RecallStep, rooms: CallerRooms = rooms_for(Jobs.recall_step)) -> Response:
    """Ask before a step runs. `kept: false`: run it, outside any transaction, and keep what it returns."""
    return answer(await rooms.jobs.recall_step(job_id, body.token, body.name))


@router.post(
    "/{job_id}/steps", operation_id="keep_step", summary="Keep what a step has returned", response_model=StepResult,
    responses=refuses(404, 409),
)  # fmt: skip
async def keep_step(job_id: JobId, body: KeepStep, rooms: CallerRooms = rooms_for(Jobs.keep_step)) -> Response:
    """The first result that is kept counts, and is the answer to every later one, so a request may be repeated. 409
    `lease_lost` means that another worker holds the job now, and nothing is kept.
    """
    return answer(await rooms.jobs.keep_step(job_id, body.token, body.name, body.value))


@router.post(
    "/{job_id}/spend", operation_id="spend", summary="Reserve what the next step may cost", response_model=Spending,
    responses=refuses(404, 409),
)  # fmt: skip
async def spend(job_id: JobId, body: Spend, rooms: CallerRooms = rooms_for(Jobs.spend)) -> Response:
    """Reserve before the step. `granted: false`: the budget of the job has no room; end the attempt as snoozed for
    `wait` seconds, until it is refilled. A key is reserved once in an attempt, so that a request may be repeated.
    """
    return answer(await rooms.jobs.spend(job_id, body.token, body.cost, key=body.key))


@router.get(
    "/{job_id}/parents", operation_id="list_parents", summary="The results that a job builds on",
    response_model=Page[ParentResult], responses=refuses(404),
)  # fmt: skip
async def parents(job_id: JobId, rooms: CallerRooms = rooms_for(Jobs.parents)) -> Response:
    """The jobs that it was enqueued after, in that order, with what they returned, as its worker needs them."""
    return answer(await rooms.jobs.parents(job_id))


@router.post(
    "/{job_id}/spent", operation_id="spent", summary="Report what a step has cost", response_model=Job,
    responses=refuses(404, 409),
)  # fmt: skip
async def spent(job_id: JobId, body: ReportSpent, rooms: CallerRooms = rooms_for(Jobs.spent)) -> Response:
    """What a step reserved and did not use is free again at once. The last report counts."""
    return answer(await rooms.jobs.spent(job_id, body.token, body.cost, key=body.key))


def report_dead(request: Request, later: BackgroundTasks, job_ids: list[str]) -> None:
    """Report dead jobs after the answer, so that no listener delays it (S0-20)."""
    died, world = service_of(request).options.died, world_of(request)

    async def report(job_id: str) -> None:
        if died is not None:
            await died(await on_thread(verbs.get, world, job_id))

    for job_id in job_ids if died is not None else ():
        later.add_task(report, job_id)


async def claim_or_wait(
    world: World, want: Want, caller: Caller, request: Request, patience: timedelta
) -> list[core.Job]:
    """Claim what is due; where that is nothing, wait for a job, but no longer than *patience*."""
    jobs, _ = await on_thread(take, world, want)
    return jobs or (await waiting_room_of(request.app).wait(world, want, caller, request, patience) if patience else [])
