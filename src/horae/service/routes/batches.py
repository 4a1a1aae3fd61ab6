"""Batches: jobs that belong together, their progress, and the callbacks that follow."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from fastapi.responses import Response
from pydantic import AfterValidator, Field

from horae.actions.jobs.requests import Request as NewJob
from horae.api.jobs.batch import Batches, BatchJob, JobBatch, has_ended
from horae.api.operation import Page
from horae.core.jobs.batch import BatchState
from horae.service.ending_waits import WaitSeconds, wait_for_end
from horae.service.fields import Path, Query
from horae.service.inputs import OperationReason, ReasonBody, Tenant, check_one_line
from horae.service.models import value_of
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router
from horae.service.routes.jobs import JobBody

router = make_router(prefix="/batches", tags=["batches"])
BatchId = Annotated[
    str, Path(pattern=r"^batch_([0-9]{1,4}x)?[0-9]{1,18}$", description="As in `batch_3`.", examples=["batch_3"])
]
States = Annotated[list[BatchState], Query(max_length=3)]
NOTHING = ReasonBody()


class NewBatch(OperationReason):
    """Jobs that are stored together, and what follows when all of them have ended.

    Neither jobs nor callbacks have a `key` or a `unique` name of their own.
    """

    jobs: Annotated[list[JobBody], Field(min_length=1, max_length=1000)]
    name: Annotated[str, Field(max_length=200), AfterValidator(check_one_line)] = ""
    key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    on_end: JobBody | None = Field(default=None, description="Runs when all have ended, in whatever way.")
    on_success: JobBody | None = Field(default=None, description="Runs when all have succeeded; else it is cancelled.")
    on_failure: JobBody | None = Field(default=None, description="Runs when all have ended and one did not succeed.")


@router.post(
    "", operation_id="create_batch", summary="Store jobs as one batch, with callbacks", status_code=201,
    response_model=JobBatch, responses=refuses(404, 409),
)  # fmt: skip
async def create(body: NewBatch, rooms: CallerRooms = rooms_for(Batches.create)) -> Response:
    """All jobs, or, when one is refused, none. Each callback is a job that is held until then and exists once. The same
    `key` with the same request again is the batch that is there.
    """
    jobs = [value_of(NewJob, each) for each in body.jobs]
    callbacks = {"on_end": body.on_end, "on_success": body.on_success, "on_failure": body.on_failure}
    called = {name: value_of(NewJob, each) for name, each in callbacks.items() if each is not None}
    return answer(await rooms.batches.create(jobs, name=body.name, key=body.key, reason=body.reason, **called), 201)


@router.get(
    "", operation_id="list_batches", summary="Batches, newest first", response_model=Page[JobBatch],
    responses=refuses(404),
)  # fmt: skip
async def list_(
    state: States = [],  # noqa: B006 - FastAPI copies it
    owner: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Batches.list),
) -> Response:
    return answer(await rooms.batches.list(state=state, owner=owner).page(cursor, limit=limit))


@router.get(
    "/{batch_id}", operation_id="get_batch", summary="One batch with its progress", response_model=JobBatch,
    responses=refuses(404),
)  # fmt: skip
async def get(batch_id: BatchId, rooms: CallerRooms = rooms_for(Batches.get)) -> Response:
    return answer(await rooms.batches.get(batch_id))


@router.get(
    "/{batch_id}/jobs", operation_id="list_batch_jobs", summary="The jobs of a batch", response_model=Page[BatchJob],
    responses=refuses(404),
)  # fmt: skip
async def jobs(
    batch_id: BatchId,
    state: BatchState | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Batches.jobs),
) -> Response:
    """By id, in order; with `state` those that are open, have succeeded or have failed."""
    return answer(await rooms.batches.jobs(batch_id, state=state).page(cursor, limit=limit))


@router.get(
    "/{batch_id}/wait", operation_id="wait_for_batch", summary="Wait for the end of a batch", response_model=JobBatch,
    responses=refuses(404),
)  # fmt: skip
async def wait(
    batch_id: BatchId, request: Request, seconds: WaitSeconds = 0, rooms: CallerRooms = rooms_for(Batches.wait)
) -> Response:
    """Answers as soon as all jobs have ended. When the time is up it answers with the batch as it stands: look at
    `state`, and ask again to go on waiting. 401 when the token is revoked or expires meanwhile.
    """
    return answer(await wait_for_end(lambda: rooms.batches.get(batch_id), has_ended, batch_id, request, seconds))


@router.post(
    "/{batch_id}/cancel", operation_id="cancel_batch", summary="Cancel what is left of a batch",
    response_model=JobBatch, responses=refuses(404, 409),
)  # fmt: skip
async def cancel(
    batch_id: BatchId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Batches.cancel)
) -> Response:
    """Waiting jobs end at once, running ones are asked to stop; then `on_end` and `on_failure` follow."""
    return answer(await rooms.batches.cancel(batch_id, reason=body.reason))
