"""``/overview``: what goes on now, and what needs a person."""

from __future__ import annotations

from fastapi.responses import Response

from horae.api.overview import Overview, OverviewRoom
from horae.service.rooms import CallerRooms, answer_in_words, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/overview", tags=["overview"])


@router.get("", operation_id="get_overview", summary="What goes on now, and what needs you", response_model=Overview)
async def get_overview(rooms: CallerRooms = rooms_for(OverviewRoom.get)) -> Response:
    """Counts go up to 10,001, which means more than 10,000. Sentences are in the language of the request."""
    return answer_in_words(await rooms.overview.get())
