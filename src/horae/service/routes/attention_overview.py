"""``/attention/overview``: agents' lanes in numbers."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from horae.api.attention.room import Attention
from horae.api.attention.values import LaneSummary
from horae.api.operation import Page
from horae.service.inputs import Tenant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer_in_words, rooms_for

router = APIRouter(prefix="/attention/overview", tags=["attention"])


@router.get(
    "", operation_id="get_attention_overview", summary="Agents' lanes in numbers, the oldest first",
    response_model=Page[LaneSummary], responses=refuses(404),
)  # fmt: skip
async def get_overview(
    owner: Tenant = None, limit: Limit = 100, cursor: Cursor = None, rooms: CallerRooms = rooms_for(Attention.overview)
) -> Response:
    """Focus, how much lies on the stack and in the backlog, waits, confirmations to answer, and the last step."""
    return answer_in_words(await rooms.attention.overview(owner=owner).page(cursor, limit=limit))
