"""``/errors``: failures by cause."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator, Field

from horae.api.acts import Act
from horae.api.error_groups import ErrorGroup, ErrorGroups
from horae.api.operation import Page
from horae.service.fields import Instant, Path, Query
from horae.service.inputs import AuditReason, OperationReason, ReasonBody, Tenant, TextFilter, check_one_line
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/errors", tags=["errors"])
Fingerprint = Annotated[
    str,
    Path(min_length=1, max_length=32, examples=["5f2a9c0d3b7e4a61"]),
    AfterValidator(check_one_line),
]
NOTHING = ReasonBody()


class MuteErrors(OperationReason):
    """Why a group is muted, and until when."""

    reason: AuditReason
    until: Instant | None = Field(default=None, description="Until it is unmuted, unless given.")


@router.get(
    "", operation_id="list_errors", summary="Groups of errors, those seen last first", response_model=Page[ErrorGroup],
    responses=refuses(404),
)  # fmt: skip
async def list_errors(
    owner: Tenant = None,
    handler: TextFilter = None,
    muted: Annotated[bool | None, Query(description="Only muted ones, or only others.")] = None,
    seen_since: Annotated[Instant | None, Query(description="Only those seen since then.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(ErrorGroups.list),
) -> Response:
    found = rooms.error_groups.list(owner=owner, handler=handler, muted=muted, seen_since=seen_since)
    return answer(await found.page(cursor, limit=limit))


@router.get(
    "/{fingerprint}", operation_id="get_error", summary="One group, with its counts by day",
    response_model=ErrorGroup, responses=refuses(404),
)  # fmt: skip
async def get_error(
    fingerprint: Fingerprint, owner: Tenant = None, rooms: CallerRooms = rooms_for(ErrorGroups.get)
) -> Response:
    return answer(await rooms.error_groups.get(fingerprint, owner=owner))


@router.post(
    "/{fingerprint}/mute", operation_id="mute_error", summary="Mute a group", response_model=ErrorGroup,
    responses=refuses(404),
)  # fmt: skip
async def mute_error(
    fingerprint: Fingerprint,
    body: MuteErrors,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(ErrorGroups.mute),
) -> Response:
    """It goes on counting, and stays muted when it grows."""
    return answer(await rooms.error_groups.mute(fingerprint, reason=body.reason, until=body.until, owner=owner))


@router.post(
    "/{fingerprint}/unmute", operation_id="unmute_error", summary="Let a group be heard of again",
    response_model=ErrorGroup, responses=refuses(404),
)  # fmt: skip
async def unmute_error(
    fingerprint: Fingerprint,
    body: ReasonBody = NOTHING,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(ErrorGroups.unmute),
) -> Response:
    return answer(await rooms.error_groups.unmute(fingerprint, reason=body.reason, owner=owner))


@router.post(
    "/{fingerprint}/retry", operation_id="retry_error", summary="Revive the dead jobs of a group", status_code=201,
    response_model=Act, responses=refuses(404, 409),
)  # fmt: skip
async def retry_error(
    fingerprint: Fingerprint,
    body: ReasonBody = NOTHING,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(ErrorGroups.retry),
) -> Response:
    """Begins a bulk act; a job of Horae's own works on it in batches."""
    return answer(await rooms.error_groups.retry(fingerprint, reason=body.reason, owner=owner), 201)
