"""Long answers that come line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse

from horae.core.audit.exports import Line, write_line

LINES = "text/x-ndjson"  # a text, so that generated clients take it
AT_ONCE = 200  # lines in one piece of the answer
DESCRIBED = {"content": {LINES: {"schema": {"type": "string"}}}}


async def answer_lines(lines: AsyncIterator[Line]) -> StreamingResponse:
    """Answer with lines of JSON; what is refused is refused before the answer begins."""
    first = await anext(lines)
    return StreamingResponse(_text(first, lines), media_type=LINES)


async def _text(first: Line, lines: AsyncIterator[Line]) -> AsyncIterator[str]:
    """Yield the text of lines, many at once: each piece costs the server as much as a small answer."""
    waiting = [write_line(first)]
    async for line in lines:
        waiting.append(write_line(line))
        if len(waiting) >= AT_ONCE:
            yield "".join(waiting)
            waiting.clear()
    yield "".join(waiting)
