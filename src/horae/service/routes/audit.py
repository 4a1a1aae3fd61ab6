"""``/audit``: who did what to which thing, and why."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from horae.api.audit import Audit, AuditEntry, Verification, parse_heads
from horae.api.operation import Page
from horae.core.audit.exports import Line, write_line
from horae.service.inputs import Tenant, TextFilter
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for

LINES = "text/x-ndjson"  # a text, so that generated clients take it
AT_ONCE = 200  # lines of an export in one piece of the answer
HEAD = "`owner=hash`: a head that was kept elsewhere, which must still be in its chain. May be repeated."
router = APIRouter(prefix="/audit", tags=["audit"])


@router.get(
    "", operation_id="list_audit", summary="Accountable acts, the newest first", response_model=Page[AuditEntry],
    responses=refuses(404),
)  # fmt: skip
async def list_audit(
    object_id: TextFilter = None,
    object_type: TextFilter = None,
    owner: Tenant = None,
    actor: TextFilter = None,
    verb: TextFilter = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Audit.list),
) -> Response:
    found = rooms.audit.list(object_id=object_id, object_type=object_type, owner=owner, actor=actor, verb=verb)
    return answer(await found.page(cursor, limit=limit))


@router.post(
    "/verify", operation_id="verify_audit", summary="Check that no entry was changed",
    response_model=Verification,
)  # fmt: skip
async def verify_audit(
    owner: Tenant = None,
    head: Annotated[list[str], Query(max_length=1000, description=HEAD)] = [],  # noqa: B006 - FastAPI copies it
    rooms: CallerRooms = rooms_for(Audit.verify),
) -> Response:
    """Recomputes the chain of every owner, or of one, and names what was changed, removed or moved. What is not sealed
    yet is sealed first.
    """
    return answer(await rooms.audit.verify(owner=owner, heads=parse_heads(head)))


@router.get(
    "/export",
    operation_id="export_audit",
    summary="The audit as a file that proves itself",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES: {"schema": {"type": "string"}}}}, **refuses(404)},
)
async def export_audit(owner: Tenant = None, rooms: CallerRooms = rooms_for(Audit.export)) -> StreamingResponse:
    """Lines of JSON: a header, then each owner's chain, its entries in their order and its head, then an end. Whoever
    has the file can verify it without this service: `horae audit verify --file`. A tenant gets its own chain.
    """
    lines = rooms.audit.export(owner=owner)
    first = await anext(lines)  # what is refused is refused before the answer begins
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
