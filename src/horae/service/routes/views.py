"""``/views``: filters with a name."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator, ConfigDict, Field

from horae.api.operation import Page
from horae.api.views import View, Views
from horae.core.views import LONGEST_FILTER, LONGEST_NAME, ViewRoom
from horae.service.fields import Path
from horae.service.inputs import OperationReason, ReasonQuery, check_one_line, check_storable
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/views", tags=["views"])
ViewId = Annotated[str, Path(min_length=1, max_length=50, examples=["view_3"]), AfterValidator(check_one_line)]


class SaveView(OperationReason):
    """A filter, and what to call it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Timeouts", "filter": "error:Timeout"}]})

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(check_one_line)]
    filter: Annotated[str, Field(max_length=LONGEST_FILTER), AfterValidator(check_storable)]
    room: ViewRoom = "jobs"
    shared: bool = Field(default=False, description="Show it to all of the tenant.")


class ShareView(OperationReason):
    """Who sees a view."""

    shared: bool = Field(default=True, description="false: its author alone.")


SHARED = ShareView()


@router.get("", operation_id="list_views", summary="Own and shared views", response_model=Page[View])
async def list_views(room: ViewRoom | None = None, rooms: CallerRooms = rooms_for(Views.list)) -> Response:
    return answer(await rooms.views.list(room=room))


@router.post(
    "", operation_id="save_view", summary="Save a filter under a name", response_model=View, responses=refuses(409)
)
async def save_view(body: SaveView, rooms: CallerRooms = rooms_for(Views.save)) -> Response:
    """A view of the same room and name is replaced. A filter of jobs is checked."""
    saved = await rooms.views.save(
        body.name, body.filter, room=body.room, shared=body.shared, reason=body.reason
    )  # fmt: skip
    return answer(saved)


@router.post(
    "/{view_id}/share", operation_id="share_view", summary="Show a view to all, or to its author alone",
    response_model=View, responses=refuses(404),
)  # fmt: skip
async def share_view(
    view_id: ViewId, body: ShareView = SHARED, rooms: CallerRooms = rooms_for(Views.share)
) -> Response:  # fmt: skip
    return answer(await rooms.views.share(view_id, shared=body.shared, reason=body.reason))


@router.delete(
    "/{view_id}", operation_id="delete_view", summary="Delete a view", status_code=204, responses=refuses(404)
)
async def delete_view(
    view_id: ViewId, reason: ReasonQuery = "", rooms: CallerRooms = rooms_for(Views.delete)
) -> Response:  # fmt: skip
    await rooms.views.delete(view_id, reason=reason)
    return Response(status_code=204)
