"""``/governance/report``: what became of governed objects in a window, how things stand, and what is above its line."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from horae.api.governance.report import Governance, GovernanceReport
from horae.core.governance.report import LONGEST
from horae.service.fields import Instant, Query
from horae.service.inputs import Tenant
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer_in_words, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/governance", tags=["governance"])
Period = Annotated[
    float | None,
    Query(gt=0, le=LONGEST.total_seconds(), description="How many seconds back from its end; else a week."),
]


@router.get(
    "/report", operation_id="get_governance_report", summary="What became of governed objects, and what is wrong",
    response_model=GovernanceReport, responses=refuses(404),
)  # fmt: skip
async def get_report(
    period: Period = None,
    until: Instant | None = None,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Governance.report),
) -> Response:
    """Read in one moment. Sentences are in the language of the request."""
    return answer_in_words(await rooms.governance.report(period=period, until=until, owner=owner))
