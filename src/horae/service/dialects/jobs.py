"""Document 000's jobs: enqueue them, read them, and act on them by hand. ``held_jobs`` is the worker's side."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Depends, Header, Query, Request, Response

from horae.actions.jobs import jobs as verbs
from horae.actions.jobs.masking import mask_for_readers
from horae.actions.jobs.requests import keyed_by_call
from horae.actions.shards import refuse_partial
from horae.api import here as api
from horae.api.jobs import local
from horae.core.access.callers import Caller
from horae.core.jobs.job import Filter, Job
from horae.ports.world import World
from horae.service import languages
from horae.service.dialects.job_shapes import (
    WORDS,
    Bulk,
    BulkEnqueued,
    EnqueuedJob,
    JobPage,
    JobRequest,
    JobShape,
    Reasons,
    RescheduleJob,
    RevivedJobs,
    ReviveJobs,
    Runs,
    RunShape,
    Status,
)
from horae.service.dialects.objects import object_shape
from horae.service.fields import JOB_ID, JobId
from horae.service.inputs import ReasonBody, Tenant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.router import make_router
from horae.service.state import CurrentService, CurrentWorld, Service, require_scopes

router = make_router(prefix="/scheduler", tags=["jobs"])
CurrentCaller = Annotated[Caller, Depends(require_scopes("tasks", "worker", by_queue=True))]
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=255, description="The same as `idempotency_key`.")
]
CallKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="For the whole call: a job without an `idempotency_key` gets one from it and from its place.",
    ),
]
Queue = Annotated[str | None, Query(max_length=100)]
Handler = Annotated[str | None, Query(max_length=200)]
Tag = Annotated[str | None, Query(max_length=100)]
ObjectType = Annotated[str | None, Query(max_length=100)]
ObjectId = Annotated[str | None, Query(max_length=150)]
Before = Annotated[
    str | None,
    Query(pattern=JOB_ID.pattern, description="Only older than this job; a cursor wins over it."),
]
StatusFilter = Annotated[list[Status | Literal["dead"]], Query(max_length=10)]
NOTHING = ReasonBody()
STATES = {word: state for state, word in WORDS.items()} | {"dead": "dead"}  # nothing stays `failed`: see `find_jobs`


# -- enqueue -----------------------------------------------------------------------------------------------------


@router.post(
    "/jobs",
    operation_id="enqueue_job",
    summary="Store a job",
    status_code=201,
    responses={
        200: {"model": EnqueuedJob, "description": "It was there before: same key, same request."},
        **refuses(404, 409),
    },
)
def enqueue(
    body: JobRequest,
    request: Request,
    response: Response,
    world: CurrentWorld,
    service: CurrentService,
    caller: CurrentCaller,
    key: IdempotencyKey = None,
) -> EnqueuedJob:
    """One job, due at `run_at`. The same `idempotency_key` with the same request answers 200 with the job that is
    there; with another request 409 `key_conflict`. The house's workers run a tenant's job only where its handler is
    open to tenants (`GET /definitions`); until then it is held, and only a worker with a token of that tenant gets it.
    """
    (placed,) = local.enqueue(_here(world, service, caller), [body.request(caller.owner, key)])
    response.status_code = 200 if placed.deduplicated else 201
    response.headers["Location"] = f"{request.scope.get('root_path', '')}/scheduler/jobs/{placed.id}"
    return EnqueuedJob.of(placed.job, deduplicated=placed.deduplicated, object=object_shape(world, placed.job))


@router.post(
    "/jobs/bulk",
    operation_id="enqueue_jobs",
    summary="Store up to a thousand jobs, all or none",
    status_code=201,
    responses={200: {"model": BulkEnqueued, "description": "All of them were there before."}, **refuses(404, 409)},
)
def enqueue_many(
    body: Bulk,
    response: Response,
    world: CurrentWorld,
    service: CurrentService,
    caller: CurrentCaller,
    key: CallKey = None,
) -> BulkEnqueued:
    """The same `Idempotency-Key` with the same jobs answers 200 with those that are there; with other jobs 409
    `key_conflict`, and nothing is stored. A job with an `idempotency_key` keeps its own."""
    asked = [each.request(caller.owner) for each in body.jobs]
    requests = asked if key is None else keyed_by_call(asked, key)
    placed = local.enqueue(_here(world, service, caller), requests)
    enqueued = [EnqueuedJob.of(each.job, deduplicated=each.deduplicated) for each in placed]
    created = sum(not each.deduplicated for each in placed)
    response.status_code = 201 if created else 200
    return BulkEnqueued(jobs=enqueued, created=created)


def _here(world: World, service: Service, caller: Caller) -> api.Here:
    return api.Here(world, caller, service.options.max_unfinished_jobs)


# -- look --------------------------------------------------------------------------------------------------------


@router.get("/jobs", operation_id="find_jobs", summary="Jobs, newest first", responses=refuses(404))
def find(
    world: CurrentWorld,
    service: CurrentService,
    caller: CurrentCaller,
    status: StatusFilter = [],  # noqa: B006 - FastAPI copies it
    state: StatusFilter = [],  # noqa: B006 - FastAPI copies it
    queue: Queue = None,
    handler: Handler = None,
    tag: Tag = None,
    object_type: ObjectType = None,
    object_id: ObjectId = None,
    idempotency_key: Annotated[str | None, Query(max_length=255)] = None,
    owner: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    before: Before = None,
) -> JobPage:
    """`failed` finds nothing: a failed job is queued again or dead. `state` is another name of `status`."""
    words = [*status, *state]
    states = tuple(dict.fromkeys(STATES[word] for word in words if word in STATES))
    if words and not states:
        return JobPage(jobs=[], next_cursor=None)
    wanted = Filter(states, queue, handler, owner, tag, idempotency_key, object_type, object_id)
    return _page(_here(world, service, caller), wanted, limit, cursor, before)


@router.get("/dead-letters", operation_id="find_dead_letters", summary="Jobs that gave up, newest first")
def dead_letters(
    world: CurrentWorld,
    service: CurrentService,
    caller: CurrentCaller,
    queue: Queue = None,
    handler: Handler = None,
    tag: Tag = None,
    object_type: ObjectType = None,
    object_id: ObjectId = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> JobPage:
    wanted = Filter(("dead",), queue, handler, None, tag, None, object_type, object_id)
    return _page(_here(world, service, caller), wanted, limit, cursor)


@router.get("/jobs/{job_id}", operation_id="get_job", summary="One job", responses=refuses(404))
def get(job_id: JobId, world: CurrentWorld, caller: CurrentCaller) -> JobShape:
    return _masked_shape(world, verbs.get(world, job_id, **caller.reach))


@router.get(
    "/jobs/{job_id}/runs",
    operation_id="get_job_runs",
    summary="Every attempt at a job, the oldest first",
    responses=refuses(404),
)
def runs(job_id: JobId, world: CurrentWorld, caller: CurrentCaller) -> Runs:
    found = local.runs(api.Here(world, caller), job_id)
    return Runs(runs=[RunShape.of(run) for run in found])


@router.get(
    "/jobs/{job_id}/why", operation_id="explain_job", summary="Why a job stands where it stands", responses=refuses(404)
)
def why(
    job_id: JobId, world: CurrentWorld, service: CurrentService, caller: CurrentCaller, response: Response
) -> Reasons:
    response.headers.update(languages.headers())
    return Reasons.of(*local.explain(_here(world, service, caller), job_id), languages.current())


def _masked_shape(world: World, job: Job) -> JobShape:
    return JobShape.of(mask_for_readers(world, [job])[0])


def _page(here: api.Here, wanted: Filter, limit: int, cursor: str | None, before: str | None = None) -> JobPage:
    refuse_partial(here.world, here.caller.filter_owner(wanted.owner))
    found, following = local.find(here, wanted, None, cursor, limit, before)
    seen = mask_for_readers(here.world, found)
    return JobPage(jobs=[JobShape.of(job) for job in seen], next_cursor=following)


# -- act ---------------------------------------------------------------------------------------------------------


@router.post("/jobs/revive", operation_id="revive_jobs", summary="Give many dead letters a new life")
def revive_many(body: ReviveJobs, world: CurrentWorld, service: CurrentService, caller: CurrentCaller) -> RevivedJobs:
    """Return how many match; change them only with `dry_run: false`. One refusal does not stop the others."""
    wanted = Filter(("dead",), body.queue, body.handler, None, body.tag, None, body.object_type, body.object_id)
    refuse_partial(world, caller.sees)
    return RevivedJobs(**asdict(local.revive_many(_here(world, service, caller), wanted, body.dry_run, body.reason)))


@router.post(
    "/jobs/{job_id}/cancel",
    operation_id="cancel_job",
    summary="End a job that is not needed any more",
    responses=refuses(404, 409),
)
def cancel(job_id: JobId, world: CurrentWorld, caller: CurrentCaller, body: ReasonBody = NOTHING) -> JobShape:
    """A waiting job ends at once; a running one is asked to stop (`cancel_requested` in its renewals)."""
    return _masked_shape(world, verbs.cancel(world, job_id, actor=caller.actor, reason=body.reason, **caller.reach))


@router.post(
    "/jobs/{job_id}/revive",
    operation_id="revive_job",
    summary="Give a dead letter a new life",
    responses=refuses(404, 409),
)
def revive(job_id: JobId, world: CurrentWorld, caller: CurrentCaller, body: ReasonBody = NOTHING) -> JobShape:
    """The job is due now, with all its attempts again."""
    return _masked_shape(world, verbs.revive(world, job_id, actor=caller.actor, reason=body.reason, **caller.reach))


@router.post(
    "/jobs/{job_id}/reschedule",
    operation_id="reschedule_job",
    summary="Move a waiting job",
    responses=refuses(404, 409),
)
def reschedule(job_id: JobId, body: RescheduleJob, world: CurrentWorld, caller: CurrentCaller) -> JobShape:
    """To another time or priority; its planned time and its key stay what they were."""
    job = verbs.reschedule(
        world,
        job_id,
        run_at=body.run_at,
        priority=body.priority,
        actor=caller.actor,
        reason=body.reason,
        **caller.reach,
    )
    return _masked_shape(world, job)
