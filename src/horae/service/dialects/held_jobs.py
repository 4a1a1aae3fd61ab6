"""The worker's side of document 000's job queue: pull, renew, end an attempt.

A worker ends an attempt with the ``token`` of its pull. Document 000's examples have none, so it may be missing where
only one worker can be meant: see ``_is_unmistakable``.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Self

from fastapi import BackgroundTasks, Depends, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from horae.actions.jobs import claims, endings
from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.held_jobs import renew_with_entries
from horae.actions.jobs.nodes import find_nodes
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.core.jobs.job import JOB, Job, Run
from horae.core.jobs.job import Lease as Hold
from horae.core.jobs.machinery import refuse_own
from horae.core.time.instants import iso
from horae.errors import InvalidInput, LeaseLost, StoreBusy, TokenNeeded
from horae.ports.world import Clock, World
from horae.service.auth.holders import Holders, holders_of
from horae.service.dialects.job_shapes import SCHEDULER, AckedJob, JobShape
from horae.service.dialects.objects import last_entry_id, object_shape
from horae.service.fields import Body, Instant, JobId, Lease, Seconds, Token
from horae.service.long_poll import Want
from horae.service.problems import refuses
from horae.service.router import make_router
from horae.service.routes.held_jobs import claim_or_wait
from horae.service.state import CurrentService, CurrentWorld, Service, require_scopes

router = make_router(prefix="/scheduler/jobs", tags=["worker protocol"])
WorkerCaller = Annotated[Caller, Depends(require_scopes("worker", by_queue=True))]
JobHolders = Annotated[Holders, Depends(holders_of)]
WorkerId = Annotated[str, Field(max_length=200, description="Must be the holder's, where it is given.")]
TOKENLESS = (
    "Without `token` it is accepted only while no other worker can be meant: the job is running, its lease has not run "
    "out, the same caller pulled it, `worker_id`, if given, is the holder's, and every earlier attempt was ended by "
    "its own worker's `fail`. Otherwise 409 `token_needed`. A token that is no longer current changes nothing: 409 "
    "`lease_lost`."
)


class Pull(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"worker_id": "worker-1", "limit": 100, "queues": [SCHEDULER], "wait": 30}]}
    )

    worker_id: Annotated[str, Field(min_length=1, max_length=200)]
    limit: Annotated[int, Field(ge=1, le=claims.MAX_PULL)] = 100
    queues: list[Annotated[str, Field(max_length=100)]] = Field(default=[SCHEDULER], min_length=1, max_length=20)
    lease_sec: Lease | None = Field(default=None, description="How long the jobs are yours; 120 by default.")
    wait: Annotated[float, Field(ge=0, le=30, allow_inf_nan=False)] = Field(
        default=0, description="Seconds to wait for a job when none is due."
    )
    now: Instant | None = Field(default=None, description="Ignored, unless the server runs in simulation mode.")


class Pulled(BaseModel):
    jobs: list[JobShape] = Field(description="Ordered by `run_at`, then priority; each is now `running` and yours.")
    now: Instant = Field(description="The server's clock, which decides what is due.")


class AckJob(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"result": "succeeded", "audit_event_id": "aud_789", "next_action_at": "2030-02-28T00:00:00Z"},
                {"token": 1, "result": {"pages": 12}},
            ]
        }
    )

    result: Any = Field(default=None, description='"succeeded", or any JSON to keep as the result.')
    token: Token | None = None
    worker_id: WorkerId | None = None
    audit_event_id: Annotated[str, Field(max_length=100)] | None = None
    next_action_at: Instant | None = None


class FailJob(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"error": "timeout while verifying evidence", "retry_delay_sec": 300}]}
    )

    error: Annotated[str, Field(max_length=100_000)]
    retry_delay_sec: Seconds | None = Field(
        default=None, description="Counted from `run_at`, or from now where that has passed; else the job's policy."
    )
    token: Token | None = None
    worker_id: WorkerId | None = None
    final: bool = Field(default=False, description="Do not try again: straight to the dead letters.")


class Held(Body):
    """Shows who holds the job."""

    token: Token
    worker_id: WorkerId | None = None


class RenewJob(Held):
    lease_sec: Lease | None = Field(default=None, description="From now on; 120 by default.")


class JobProgress(Held):
    value: Any = Field(default=None, description="How far it is, as any JSON.", examples=[{"done": 3, "of": 10}])
    checkpoint: Any = Field(default=None, description="What a later attempt needs to go on from here.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set & {"value", "checkpoint"}:
            raise InvalidInput("progress_empty")
        return self


class ReleaseJob(Held):
    reason: Annotated[str, Field(max_length=2000)] = ""


@dataclass(frozen=True)
class SimulatedClock:
    """A clock in simulation mode: it shows the instant that the caller sends."""

    instant: datetime
    real: Clock

    def now(self) -> datetime:
        return self.instant

    def monotonic(self) -> float:
        return self.real.monotonic()

    def steady(self) -> datetime:
        return self.instant

    def pause(self, seconds: float) -> None:
        self.real.pause(seconds)

    async def pause_async(self, seconds: float) -> None:
        await self.real.pause_async(seconds)


@router.post("/pull", operation_id="pull_jobs", summary="Take due jobs under a lease", responses=refuses(409))
async def pull(
    body: Pull,
    request: Request,
    world: CurrentWorld,
    service: CurrentService,
    holders: JobHolders,
    caller: WorkerCaller,
) -> Pulled:
    """Returns what is due, oldest `run_at` first, and marks it running. With `wait` it answers as soon as there is
    something, or with nothing when the time is up; with 401 when its token is revoked or expires meanwhile."""
    simulated = body.now is not None and service.options.simulation
    if simulated and body.now is not None:
        world = replace(world, clock=SimulatedClock(body.now, world.clock))
    queues = tuple(dict.fromkeys(body.queues))
    for queue in queues:
        caller.require_queue(queue)
    lease = _lease(service, body.lease_sec)
    want = Want(body.worker_id, queues, body.limit, lease, caller.sees, order="run_at")
    patience = timedelta(0) if simulated else min(timedelta(seconds=body.wait), service.options.longest_wait)
    jobs = await claim_or_wait(world, want, caller, request, patience)
    holders.note(jobs, caller)
    return Pulled(jobs=[JobShape.of(job) for job in jobs], now=world.clock.now())


@router.post(
    "/{job_id}/ack",
    operation_id="ack_job",
    summary="The job is done",
    description=TOKENLESS,
    responses=refuses(404, 409),
)
def ack(job_id: JobId, body: AckJob, world: CurrentWorld, holders: JobHolders, caller: WorkerCaller) -> AckedJob:
    if body.result == "failed":
        raise InvalidInput("failure_acknowledged", id=job_id)
    job = endings.ack(
        world,
        job_id,
        _token(world, holders, job_id, body, caller, "acked"),
        result=None if body.result == "succeeded" else body.result,
        next_action_at=body.next_action_at,
        audit_event_id=body.audit_event_id,
        by=caller.actor,
        **caller.reach,
    )
    return AckedJob.of(job, object=object_shape(world, job), audit_event_id=last_entry_id(world, job))


@router.post(
    "/{job_id}/fail",
    operation_id="fail_job",
    summary="The attempt failed",
    description=TOKENLESS,
    responses=refuses(404, 409),
)
def fail(
    job_id: JobId,
    body: FailJob,
    world: CurrentWorld,
    service: CurrentService,
    holders: JobHolders,
    caller: WorkerCaller,
    later: BackgroundTasks,
) -> JobShape:
    job = endings.fail(
        world,
        job_id,
        _token(world, holders, job_id, body, caller, "failed"),
        body.error,
        retry_delay=None if body.retry_delay_sec is None else timedelta(seconds=body.retry_delay_sec),
        from_run_at=True,
        final=body.final,
        **caller.reach,
    )
    if job.state == "dead" and service.options.died is not None:
        later.add_task(service.options.died, job)  # after the answer, so that no listener delays it (S0-20)
    return JobShape.of(job)


@router.post(
    "/{job_id}/renew", operation_id="renew_job", summary="Keep the job for longer", responses=refuses(404, 409)
)
def renew(
    job_id: JobId, body: RenewJob, world: CurrentWorld, service: CurrentService, caller: WorkerCaller
) -> JobShape:
    """Renew at a third of the lease. `cancel_requested` in the answer asks the worker to stop."""
    job = _get_held(world, job_id, body, caller)
    lease = _lease(service, body.lease_sec)
    renewed = renew_with_entries(world, [replace(job, token=body.token)], lease=lease, by=caller.actor)
    if job.number not in renewed.held:
        raise LeaseLost(job.id, body.token)
    if job.number in renewed.busy:
        raise StoreBusy("job_row_locked", id=job.id)
    return JobShape.of(verbs.get(world, job_id))


@router.post(
    "/{job_id}/progress",
    operation_id="note_job_progress",
    summary="Show how far the job is",
    responses=refuses(404, 409),
)
def progress(job_id: JobId, body: JobProgress, world: CurrentWorld, caller: WorkerCaller) -> JobShape:
    hold = Hold(_get_held(world, job_id, body, caller).number, body.token)
    if "checkpoint" in body.model_fields_set:
        claims.checkpoint(world, hold, body.checkpoint)
    if "value" in body.model_fields_set:
        claims.progress(world, hold, body.value)
    return JobShape.of(verbs.get(world, job_id))


@router.post(
    "/{job_id}/release",
    operation_id="release_job",
    summary="Give the job back to its queue",
    responses=refuses(404, 409),
)
def release(job_id: JobId, body: ReleaseJob, world: CurrentWorld, caller: WorkerCaller) -> JobShape:
    """The job is due again at once, and no attempt is counted."""
    _get_held(world, job_id, body, caller)
    return JobShape.of(endings.release(world, job_id, body.token, reason=body.reason, **caller.reach))


def _lease(service: Service, seconds: float | None) -> timedelta:
    return service.options.http_lease if seconds is None else timedelta(seconds=seconds)


def _token(world: World, holders: Holders, job_id: str, body: AckJob | FailJob, caller: Caller, event: str) -> int:
    """Return the token that ends the attempt: the one sent, or the current one where only the caller can be meant."""
    job = _get_held(world, job_id, body, caller)
    if body.token is not None:
        return body.token
    JOB.after(job.state, event)
    now = world.clock.now()
    if job.leased_until is None or job.leased_until <= now:
        raise TokenNeeded("token_needed_after_lease", id=job.id, leased_until=iso(job.leased_until or now))
    if not holders.have(job, caller) and (holders.are_known(job) or _is_ours(world, job)):
        raise TokenNeeded("token_needed_of_other_caller", id=job.id, worker_id=job.worker_id)
    if not _is_unmistakable(job, verbs.runs(world, job_id)):
        raise TokenNeeded("token_needed_after_handover", id=job.id)
    return job.token


def _is_ours(world: World, job: Job) -> bool:
    """Return whether one of the house's own workers holds the job; those never ask over HTTP."""
    return any(node.node_id == job.worker_id for node in find_nodes(world))


def _is_unmistakable(job: Job, runs: list[Run]) -> bool:
    """Return whether the call can only come from the current holder.

    Each claim and each ending raise the token by one. If every raise belongs to an attempt whose own worker reported
    its failure, no earlier worker can still believe that it holds the job.
    """
    ended = [run for run in runs if run.token < job.token]
    return all(run.outcome == "failed" for run in ended) and job.token == 2 * len(ended) + 1


def _get_held(world: World, job_id: str, body: AckJob | FailJob | Held, caller: Caller) -> Job:
    """Return the job; refuse a caller that may not serve it, and a worker that does not hold it."""
    job = verbs.get(world, job_id, **caller.reach)
    refuse_own(job)
    if body.worker_id is not None and job.worker_id != body.worker_id:
        raise LeaseLost(job.id, job.token if body.token is None else body.token)
    return job
