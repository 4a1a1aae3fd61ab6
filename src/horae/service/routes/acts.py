"""``/acts``: bulk acts on jobs, with progress."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Request
from fastapi.responses import Response
from pydantic import AfterValidator, Field

from horae.api.acts import Act, ActPreview, Acts, has_come_to_rest
from horae.api.operation import Page
from horae.core.jobs.acts import ActState
from horae.service.ending_waits import WaitSeconds, wait_for_end
from horae.service.fields import Instant, OperationBody, Path, Query, SpanField
from horae.service.inputs import ReasonBody, check_one_line
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/acts", tags=["bulk acts"])
ActId = Annotated[str, Path(min_length=1, max_length=30, examples=["act_3"]), AfterValidator(check_one_line)]
States = Annotated[list[ActState], Query(max_length=4)]
Where = Annotated[
    str, Field(max_length=2000, description="A filter in words, as of `GET /jobs?q=`.", examples=["queue:mail"])
]
NOTHING = ReasonBody()


class PreviewAct(OperationBody):
    """An act that is only counted."""

    verb: Literal["cancel", "revive", "reschedule"]
    where: Where


class StartAct(PreviewAct, ReasonBody):
    """An act on every job that fits; `reschedule` takes `run_at` or `delay`."""

    run_at: Instant | None = None
    delay: SpanField | None = Field(default=None, description="From now on.")


@router.post(
    "/preview", operation_id="preview_act", summary="Count what a bulk act would reach", response_model=ActPreview
)
async def preview(body: PreviewAct, rooms: CallerRooms = rooms_for(Acts.preview)) -> Response:
    """Counts up to 10,000 jobs and names the first few; nothing is changed."""
    return answer(await rooms.acts.preview(body.verb, body.where))


@router.post(
    "", operation_id="start_act", summary="Cancel, revive or reschedule many jobs", status_code=201,
    response_model=Act, responses=refuses(404),
)  # fmt: skip
async def start(body: StartAct, rooms: CallerRooms = rooms_for(Acts.start)) -> Response:
    """A job of Horae's own works on it in batches. Filter and highest job number are frozen now."""
    delay = None if body.delay is None else timedelta(seconds=body.delay)
    begun = await rooms.acts.start(body.verb, body.where, run_at=body.run_at, delay=delay, reason=body.reason)
    return answer(begun, 201)


@router.get("", operation_id="list_acts", summary="Bulk acts, newest first", response_model=Page[Act])
async def list_(
    state: States = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = 50,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Acts.list),
) -> Response:
    return answer(await rooms.acts.list(state=state).page(cursor, limit=limit))


@router.get(
    "/{act_id}", operation_id="get_act", summary="One bulk act with its progress", response_model=Act,
    responses=refuses(404),
)  # fmt: skip
async def get(act_id: ActId, rooms: CallerRooms = rooms_for(Acts.get)) -> Response:
    return answer(await rooms.acts.get(act_id))


@router.get(
    "/{act_id}/wait", operation_id="wait_for_act", summary="One bulk act, for those who wait for its end",
    response_model=Act, responses=refuses(404),
)  # fmt: skip
async def wait(
    act_id: ActId, request: Request, seconds: WaitSeconds = 0, rooms: CallerRooms = rooms_for(Acts.wait)
) -> Response:
    """Answers as soon as the act rests: done, cancelled or paused. When the time is up it answers with the act as it
    stands: look at `state`, and ask again to go on waiting. 401 when the token is revoked or expires meanwhile.
    """
    return answer(await wait_for_end(lambda: rooms.acts.get(act_id), has_come_to_rest, act_id, request, seconds))


@router.post(
    "/{act_id}/pause", operation_id="pause_act", summary="Let a bulk act rest", response_model=Act,
    responses=refuses(404, 409),
)  # fmt: skip
async def pause(act_id: ActId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Acts.pause)) -> Response:
    """After the batch under way."""
    return answer(await rooms.acts.pause(act_id, reason=body.reason))


@router.post(
    "/{act_id}/resume", operation_id="resume_act", summary="Let a paused bulk act go on", response_model=Act,
    responses=refuses(404, 409),
)  # fmt: skip
async def resume(act_id: ActId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Acts.resume)) -> Response:
    return answer(await rooms.acts.resume(act_id, reason=body.reason))


@router.post(
    "/{act_id}/cancel", operation_id="cancel_act", summary="End a bulk act", response_model=Act,
    responses=refuses(404, 409),
)  # fmt: skip
async def cancel(act_id: ActId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Acts.cancel)) -> Response:
    """After the batch under way; what it has changed stays changed."""
    return answer(await rooms.acts.cancel(act_id, reason=body.reason))


@router.post(
    "/{act_id}/undo", operation_id="undo_act", summary="Move rescheduled jobs back", status_code=201,
    response_model=Act, responses=refuses(404, 409),
)  # fmt: skip
async def undo(act_id: ActId, body: ReasonBody = NOTHING, rooms: CallerRooms = rooms_for(Acts.undo)) -> Response:
    """A new act; a job that was moved since is skipped."""
    return answer(await rooms.acts.undo(act_id, reason=body.reason), 201)
