"""Long answers that come line by line, and break off within a second when their reader's token is revoked.

What has broken off has no last line, and its transfer does not end as HTTP demands: no reader takes it for the whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from horae.core.access.callers import Caller
from horae.core.audit.exports import Line, write_line
from horae.ports.world import World
from horae.service.event_stream import send_until_over
from horae.service.long_poll import Waiter, waiting_room_of

LINES = "text/x-ndjson"  # a text, so that generated clients take it
PIECE = 64 * 1024  # characters of one piece of the answer, or one line
DESCRIBED = {"content": {LINES: {"schema": {"type": "string"}}}}


class LinesAnswer(StreamingResponse):
    """Lines of JSON, as long as the caller is valid."""

    def __init__(self, text: AsyncIterator[str], world: World, caller: Caller) -> None:
        self._world, self._caller = world, caller
        super().__init__(text, media_type=LINES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        waiter = Waiter()
        with waiting_room_of(scope["app"]).watching(self._world, self._caller, waiter):
            await send_until_over(super().__call__(scope, receive, send), waiter)


async def answer_lines(lines: AsyncIterator[Line], world: World, caller: Caller) -> StreamingResponse:
    """Answer with lines of JSON; what is refused is refused before the answer begins."""
    first = await anext(lines)
    return LinesAnswer(_text(first, lines), world, caller)


async def _text(first: Line, lines: AsyncIterator[Line]) -> AsyncIterator[str]:
    """Yield the text of lines, many at once: each piece costs the server as much as a small answer."""
    waiting, size = [write_line(first)], 0
    async for line in lines:
        waiting.append(write_line(line))
        size += len(waiting[-1])
        if size >= PIECE:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)
