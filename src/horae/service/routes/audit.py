"""``/audit``: who did what to which thing, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from horae.api.audit import Audit, AuditEntry, Verification, parse_heads
from horae.api.operation import Page
from horae.core.access.callers import Caller
from horae.service.fields import Query
from horae.service.inputs import Tenant, TextFilter
from horae.service.lines import DESCRIBED, answer_lines
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, caller_for, rooms_for, rooms_of
from horae.service.router import make_router
from horae.service.state import world_of

HEAD = "`owner=hash`: a head that was kept elsewhere, which must still be in its chain. May be repeated."
router = make_router(prefix="/audit", tags=["audit"])


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
    responses={200: DESCRIBED, **refuses(404)},
)
async def export_audit(
    request: Request, owner: Tenant = None, caller: Caller = caller_for(Audit.export)
) -> StreamingResponse:
    """Lines of JSON: a header, then each owner's chain, its entries in their order and its head, then an end. The
    file can be verified without this service: `horae audit verify --file`. A tenant gets its own chain.
    """
    lines = rooms_of(request, caller).audit.export(owner=owner)
    return await answer_lines(lines, world_of(request), caller)
