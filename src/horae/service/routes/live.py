"""``/live``: which parts have changed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from horae.api.live import Live, PartsChanged, Pulse
from horae.core.access.callers import Caller
from horae.core.pulse import LONGEST, PARTS
from horae.service.live import PulseStream
from horae.service.rooms import CallerRooms, answer, caller_for, rooms_for
from horae.service.router import make_router
from horae.service.state import CurrentWorld

router = make_router(prefix="/live", tags=["live"])
CHANGE = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": TypeAdapter(PartsChanged).json_schema(),
    "description": "Which parts may have changed, and when that was seen.",
    "examples": [f'{{"at": "2030-01-07T06:00:00Z", "parts": ["{PARTS[0]}"]}}'],
}
EVENT: dict[str, Any] = {
    "type": "object", "properties": {"id": {"type": "string"}, "data": CHANGE}, "required": ["data"]
}  # fmt: skip


@router.get(
    "", operation_id="get_pulse", summary="A mark for each part, to see whether it changed", response_model=Pulse
)
async def get_pulse(rooms: CallerRooms = rooms_for(Live.get)) -> Response:
    """Compare the marks with those of a later call. A tenant gets none."""
    return answer(await rooms.live.get(), 200, **{"Cache-Control": "no-store"})


@router.get(
    "/stream",
    operation_id="follow_pulse",
    summary="Which parts change, as it happens",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": EVENT}}}},
)
async def follow_pulse(
    world: CurrentWorld,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", max_length=LONGEST, description="What a reader that comes back sends."),
    ] = None,
    caller: Caller = caller_for(Live.follow),
) -> PulseStream:
    """Server-sent events, at most two a second; a comment every 15 seconds. The stream ends after 15 minutes, and
    within a second when its token is revoked or expires. A reader that comes back hears of what it missed. A tenant is
    told every five seconds to look again.
    """
    return PulseStream(world, caller, last_event_id)
