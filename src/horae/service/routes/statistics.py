"""``/statistics``: what ended, by queue, handler and owner, over time."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator

from horae.api.operation import Page
from horae.api.statistics import Figures, Statistics
from horae.core.statistics import Grain, Scope
from horae.service.fields import Instant, Path, Query
from horae.service.inputs import check_one_line
from horae.service.paging import Limit
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(prefix="/statistics", tags=["statistics"])
By = Annotated[Scope, Path(description="The marginal.", examples=["queue"])]
Since = Annotated[Instant | None, Query(description="The beginning; it is rounded down to a whole span.")]
Until = Annotated[Instant | None, Query(description="The end; now unless given.")]


@router.get(
    "/{by}", operation_id="list_statistics", summary="Figures of a window by name", response_model=Page[Figures]
)
async def list_statistics(
    by: By,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    rooms: CallerRooms = rooms_for(Statistics.list),
) -> Response:
    """Those with most runs first; without a beginning those of the last 24 hours. Endings count a minute or two after
    they happened. A tenant asks by `owner` and sees its own row.
    """
    return answer(await rooms.statistics.list(by, since=since, until=until, limit=limit))


@router.get(
    "/{by}/series", operation_id="get_statistics_series", summary="Figures of one name over time",
    response_model=Page[Figures],
)  # fmt: skip
async def get_series(
    by: By,
    name: Annotated[
        str, Query(max_length=255, description="A queue, handler or owner."), AfterValidator(check_one_line)
    ] = "",
    grain: Grain = "hour",
    since: Since = None,
    until: Until = None,
    rooms: CallerRooms = rooms_for(Statistics.series),
) -> Response:
    """Spans in which nothing ended are left out. Minutes are kept for 2 days, hours for 35, days for 400."""
    return answer(await rooms.statistics.series(by, name, grain=grain, since=since, until=until))
