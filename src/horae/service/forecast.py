"""What will fire in the next hours, and when many things come together."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from horae.actions.forecast import LONGEST, forecast
from horae.core.access import Caller
from horae.service.fields import Instant
from horae.service.inputs import Tenant
from horae.service.paging import Limit
from horae.service.problems import refuses
from horae.service.state import Here, needs

router = APIRouter(tags=["schedules"])
HOURS = LONGEST.total_seconds() / 3600


class Coming(BaseModel):
    at: Instant
    key: str = Field(examples=["nightly"])
    owner: str
    handler: str
    queue: str


class PileUp(BaseModel):
    minute: Instant
    fires: int = Field(examples=[40])


class ForecastShape(BaseModel):
    since: Instant
    until: Instant = Field(description="How far this answer reaches.")
    complete: bool = Field(description="Whether that is as far as was asked for.")
    total: int = Field(description="Fires up to then, listed or not.")
    fires: list[Coming]
    pile_ups: list[PileUp] = Field(description="Minutes with several fires, the worst first.")


@router.get("/forecast", operation_id="get_forecast", summary="The next fires of all schedules", responses=refuses(404))
def get_forecast(
    world: Here,
    caller: Annotated[Caller, Depends(needs("admin", by_queue=True))],
    hours: Annotated[float, Query(gt=0, le=HOURS, allow_inf_nan=False)] = 24,
    limit: Limit = 100,
    owner: Tenant = None,
) -> ForecastShape:
    """As the rules say now: what is paused or off does not fire, and nobody knows what else will be changed."""
    now = world.clock.now()
    told = forecast(world, hours, owner=caller.among(owner), queues=caller.queues, limit=limit)
    return ForecastShape(
        since=now,
        until=told.until,
        complete=told.complete,
        total=told.total,
        fires=[
            Coming(at=at, key=each.key, owner=each.owner, handler=each.handler, queue=each.queue)
            for at, each in told.fires
        ],
        pile_ups=[PileUp(minute=minute, fires=count) for minute, count in told.piles],
    )
