"""``/expectations``: runs of schedules, and jobs, that should have succeeded by now."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from horae.api.operation import Page
from horae.api.schedules.expectations import Expectations, MissedRun
from horae.core.schedules.expectations import MissedState
from horae.service.fields import Query
from horae.service.inputs import Tenant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(tags=["schedules"])


@router.get(
    "/expectations", operation_id="list_expectations", summary="Runs that were expected and are missing",
    response_model=Page[MissedRun], responses=refuses(404),
)  # fmt: skip
async def list_(
    owner: Tenant = None,
    state: MissedState | None = None,
    schedule: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    job: Annotated[str | None, Query(min_length=1, max_length=40)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Expectations.list),
) -> Response:
    listing = rooms.expectations.list(owner=owner, state=state, schedule=schedule, job=job)
    return answer(await listing.page(cursor, limit=limit))
