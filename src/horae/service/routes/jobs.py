"""``/jobs``: the job queue."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Header, Request
from fastapi.responses import Response
from pydantic import Field

from horae.actions.jobs.requests import Request as NewJob
from horae.actions.jobs.requests import keyed_by_call
from horae.api.jobs.logs import AttemptLog
from horae.api.jobs.room import NOT_SENT, Enqueued, Job, JobCounts, Jobs, Reason, Related, Run, has_ended, options_of
from horae.api.operation import Page
from horae.core.jobs.job import State
from horae.errors import InvalidInput
from horae.service.ending_waits import WaitSeconds, wait_for_end
from horae.service.enqueues import enqueues_of
from horae.service.fields import Instant, OperationBody, Query
from horae.service.inputs import JobId, OperationReason, ReasonBody, Tenant, TextFilter
from horae.service.models import Model, model_of, value_of
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, answer_in_words, here_for, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/jobs", tags=["jobs"])
EXAMPLE = {"handler": "resize", "payload": {"image": 7}, "delay": 60, "key": "resize:7"}
if TYPE_CHECKING:
    JobBody = Model
else:
    JobBody = model_of(NewJob, "NewJob", without=NOT_SENT, example=EXAMPLE)
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", max_length=255, description="The same as `key` in the body.")
]
CallKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="For the whole call: a job without a `key` gets one from it and from its place.",
    ),
]
FILTER = (
    "A filter in words: `field:value`, a minus before it excludes, commas mean any of several, a star any ending, `>`, "
    "`<` and `..` compare times and numbers. Times are dates, instants, `now`, `-2h`, `+7d`."
)
States = Annotated[list[State], Query(max_length=5)]
NOTHING = ReasonBody()


class Batch(OperationBody):
    """Jobs that are stored together: all of them, or none."""

    jobs: Annotated[list[JobBody], Field(min_length=1, max_length=1000)]


class Reschedule(OperationReason):
    """The new time or priority of a waiting job."""

    run_at: Instant | None = None
    priority: Literal["high", "medium", "low"] | None = None


class Rerun(OperationReason):
    """The payload of the new job; without it that of the old one."""

    payload: Any = None


AGAIN = Rerun()


@router.post(
    "",
    operation_id="enqueue",
    summary="Store a job",
    status_code=201,
    response_model=Enqueued,
    responses={
        200: {"model": Enqueued, "description": "It was there before: same key, same request."},
        **refuses(404, 409),
    },
)
async def enqueue(
    request: Request, body: JobBody, key: IdempotencyKey = None, rooms: CallerRooms = rooms_for(Jobs.enqueue)
) -> Response:
    """One job, due at `run_at`, after `delay` seconds, or now. The same `key` with the same request answers 200 with
    the job that is there; with another request 409 `key_conflict`.
    """
    new = _with_key(value_of(NewJob, body), key)
    made = await enqueues_of(request).enqueue(here_for(request, request.state.caller), new)
    if made is None:
        made = await rooms.jobs.enqueue(**options_of(new))
    location = f"{request.scope.get('root_path', '')}/jobs/{made.id}"
    return answer(made, 200 if made.deduplicated else 201, Location=location)


@router.post(
    "/batch",
    operation_id="enqueue_batch",
    summary="Store up to a thousand jobs, all or none",
    status_code=201,
    response_model=Page[Enqueued],
    responses=refuses(404, 409),
)
async def enqueue_many(body: Batch, key: CallKey = None, rooms: CallerRooms = rooms_for(Jobs.enqueue_many)) -> Response:
    """The same `Idempotency-Key` with the same jobs answers with those that are there; with other jobs 409
    `key_conflict`, and nothing is stored.
    """
    asked = [value_of(NewJob, each) for each in body.jobs]
    return answer(await rooms.jobs.enqueue_many(asked if key is None else keyed_by_call(asked, key)), 201)


@router.get(
    "", operation_id="list_jobs", summary="Jobs, newest first", response_model=Page[Job], responses=refuses(404)
)
async def list_(
    state: States = [],  # noqa: B006 - FastAPI copies it
    queue: TextFilter = None,
    handler: TextFilter = None,
    tag: TextFilter = None,
    key: TextFilter = None,
    object_type: TextFilter = None,
    object_id: TextFilter = None,
    owner: Tenant = None,
    q: Annotated[str | None, Query(max_length=2000, description=FILTER, examples=["queue:mail error:Timeout"])] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Jobs.list),
) -> Response:
    """Each filter narrows the list."""
    found = rooms.jobs.list(
        state=state, queue=queue, handler=handler, tag=tag, key=key,
        object_type=object_type, object_id=object_id, owner=owner, where=q,
    )  # fmt: skip
    return answer(await found.page(cursor, limit=limit))


@router.get(
    "/counts", operation_id="count_jobs", summary="How many by state, queue and handler", response_model=JobCounts,
    responses=refuses(404),
)  # fmt: skip
async def count_jobs(
    owner: Tenant = None,
    q: Annotated[str | None, Query(max_length=2000, description=FILTER, examples=["queue:mail"])] = None,
    rooms: CallerRooms = rooms_for(Jobs.counts),
) -> Response:
    """Queued and finished jobs are counted over the newest ones, down to `down_to`; of dead ones the newest 10,001."""
    return answer(await rooms.jobs.counts(owner=owner, where=q))


@router.get("/{job_id}", operation_id="get", summary="One job", response_model=Job, responses=refuses(404))
async def get(job_id: JobId, rooms: CallerRooms = rooms_for(Jobs.get)) -> Response:
    return answer(await rooms.jobs.get(job_id))


@router.get(
    "/{job_id}/runs", operation_id="runs", summary="Every attempt, the oldest first", response_model=Page[Run],
    responses=refuses(404),
)  # fmt: skip
async def runs(job_id: JobId, rooms: CallerRooms = rooms_for(Jobs.runs)) -> Response:
    return answer(await rooms.jobs.runs(job_id))


@router.get(
    "/{job_id}/logs", operation_id="get_job_logs", summary="What each attempt has logged, the oldest first",
    response_model=Page[AttemptLog], responses=refuses(404),
)  # fmt: skip
async def get_job_logs(job_id: JobId, rooms: CallerRooms = rooms_for(Jobs.logs)) -> Response:
    """Lines written through `ctx.logger`: the last 200 of an attempt, up to 64 KiB, masked. They come with its end."""
    return answer(await rooms.jobs.logs(job_id))


@router.get(
    "/{job_id}/why", operation_id="why", summary="Why a job stands where it stands", response_model=Page[Reason],
    responses=refuses(404),
)  # fmt: skip
async def why(job_id: JobId, rooms: CallerRooms = rooms_for(Jobs.why)) -> Response:
    return answer_in_words(await rooms.jobs.why(job_id))


@router.get(
    "/{job_id}/related", operation_id="get_related_jobs", summary="What a job belongs to", response_model=Related,
    responses=refuses(404),
)  # fmt: skip
async def get_related_jobs(job_id: JobId, rooms: CallerRooms = rooms_for(Jobs.related)) -> Response:
    """The key of its schedule, the jobs it waits for, and some that wait for it."""
    return answer(await rooms.jobs.related(job_id))


@router.get(
    "/{job_id}/wait", operation_id="wait", summary="Wait for the end of a job", response_model=Job,
    responses=refuses(404),
)  # fmt: skip
async def wait(
    job_id: JobId, request: Request, seconds: WaitSeconds = 0, rooms: CallerRooms = rooms_for(Jobs.wait)
) -> Response:
    """Answers as soon as the job is succeeded, dead or cancelled. When the time is up it answers with the job as it
    stands: look at `state`, and ask again to go on waiting. 401 when the token is revoked or expires meanwhile.
    """
    return answer(await wait_for_end(lambda: rooms.jobs.get(job_id), has_ended, job_id, request, seconds))


@router.get(
    "/{job_id}/result", operation_id="get_result", summary="Wait for the result of a job", response_model=Job,
    responses=refuses(404),
)  # fmt: skip
async def result(
    job_id: JobId, request: Request, seconds: WaitSeconds = 0, rooms: CallerRooms = rooms_for(Jobs.result)
) -> Response:
    """As `wait`: the job, once it has ended. `result` is what its handler returned; when `state` is not `succeeded`,
    `last_error` or `cancel_reason` say why there is none.
    """
    return answer(await wait_for_end(lambda: rooms.jobs.get(job_id), has_ended, job_id, request, seconds))


@router.post(
    "/{job_id}/cancel", operation_id="cancel", summary="End a job that is not needed any more", response_model=Job,
    responses=refuses(404, 409),
)  # fmt: skip
async def cancel(job_id: JobId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Jobs.cancel)) -> Response:
    """A waiting job ends at once; a running one is asked to stop (`cancel_requested` in its renewals)."""
    return answer(await rooms.jobs.cancel(job_id, reason=body.reason))


@router.post(
    "/{job_id}/revive", operation_id="revive", summary="Give a dead job a new life", response_model=Job,
    responses=refuses(404, 409),
)  # fmt: skip
async def revive(job_id: JobId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Jobs.revive)) -> Response:
    """The job is due now, with all its attempts again."""
    return answer(await rooms.jobs.revive(job_id, reason=body.reason))


@router.post(
    "/{job_id}/reschedule", operation_id="reschedule", summary="Move a waiting job", response_model=Job,
    responses=refuses(404, 409),
)  # fmt: skip
async def reschedule(job_id: JobId, body: Reschedule, rooms: CallerRooms = rooms_for(Jobs.reschedule)) -> Response:
    """To another time or priority; its planned time and its key stay what they were."""
    return answer(await rooms.jobs.reschedule(job_id, run_at=body.run_at, priority=body.priority, reason=body.reason))


@router.post(
    "/{job_id}/rerun",
    operation_id="rerun",
    summary="Run an ended job again as a new one",
    status_code=201,
    response_model=Enqueued,
    responses=refuses(404, 409),
)
async def rerun(job_id: JobId, body: Rerun = AGAIN, rooms: CallerRooms = rooms_for(Jobs.rerun)) -> Response:
    """Makes a new job with the same payload or another one; its `rerun_of` names the old job."""
    return answer(await rooms.jobs.rerun(job_id, payload=body.payload, reason=body.reason), 201)


def _with_key(request: NewJob, key: str | None) -> NewJob:
    if key is not None and request.key not in (None, key):
        raise InvalidInput("idempotency_keys_differ", field="key")
    return request if key is None else replace(request, key=key)
