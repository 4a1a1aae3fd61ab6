"""``/attention`` over all lanes: in numbers, and a confirmation by its number alone."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from horae.api.attention.room import Attention
from horae.api.attention.values import LaneConfirmation, LaneSummary
from horae.api.operation import Page
from horae.service.fields import MOST, Path
from horae.service.inputs import Tenant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, answer_in_words, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/attention", tags=["attention"])


@router.get(
    "/overview", operation_id="get_attention_overview", summary="Agents' lanes in numbers, the oldest first",
    response_model=Page[LaneSummary], responses=refuses(404),
)  # fmt: skip
async def get_overview(
    owner: Tenant = None, limit: Limit = 100, cursor: Cursor = None, rooms: CallerRooms = rooms_for(Attention.overview)
) -> Response:
    """Focus, how much lies on the stack and in the backlog, waits, confirmations to answer, and the last step."""
    return answer_in_words(await rooms.attention.overview(owner=owner).page(cursor, limit=limit))


@router.get(
    "/confirmations/{wait}", operation_id="get_confirmation", summary="A confirmation and its lane",
    response_model=LaneConfirmation, responses=refuses(404),
)  # fmt: skip
async def get_confirmation(
    wait: Annotated[int, Path(ge=1, le=MOST, description="Its `id`.")],
    rooms: CallerRooms = rooms_for(Attention.confirmation),
) -> Response:
    """Open or answered; for a caller that has its number alone. Its lane and owner are what an answer has to name."""
    return answer(await rooms.attention.confirmation(wait))
