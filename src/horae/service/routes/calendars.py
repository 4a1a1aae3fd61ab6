"""``/calendars``: named lists of days."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response
from pydantic import AfterValidator, ConfigDict, Field

from horae.api.operation import Page
from horae.api.schedules.calendars import Calendar, CalendarDetail, Calendars
from horae.core.schedules.day_lists import MOST_DAYS
from horae.service.fields import Path, Query
from horae.service.inputs import AuditReason, IfMatch, OperationReason, check_one_line, etag, version_from
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, rooms_for
from horae.service.router import make_router

router = make_router(tags=["schedules"])
CalendarName = Annotated[str, Path(min_length=1, max_length=100), AfterValidator(check_one_line)]


class SetCalendar(OperationReason):
    """The days of a calendar, as a whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"days": ["2030-12-25", "01-01", "sat", "sun"]}]})

    days: list[Annotated[str, Field(max_length=40)]] = Field(
        min_length=1,
        max_length=MOST_DAYS,
        description="Each a date, a range 2030-12-24..2030-12-31, a date of every year 12-25, or a weekday.",
    )
    title: str | None = Field(default=None, max_length=255)


@router.get(
    "/calendars", operation_id="list_calendars", summary="Calendars, by name", response_model=Page[Calendar],
    responses=refuses(),
)  # fmt: skip
async def list_(rooms: CallerRooms = rooms_for(Calendars.list)) -> Response:
    return answer(await rooms.calendars.list())


@router.get(
    "/calendars/{name}", operation_id="get_calendar", summary="A calendar, and the schedules that use it",
    response_model=CalendarDetail, responses=refuses(404),
)  # fmt: skip
async def get(name: CalendarName, rooms: CallerRooms = rooms_for(Calendars.get)) -> Response:
    found = await rooms.calendars.get(name)
    return answer(found, ETag=etag(found.version))


@router.put(
    "/calendars/{name}", operation_id="set_calendar", summary="Make a calendar, or replace its days",
    response_model=Calendar, responses=refuses(409, 412),
)  # fmt: skip
async def set_(
    name: CalendarName, body: SetCalendar, if_match: IfMatch = None, rooms: CallerRooms = rooms_for(Calendars.set)
) -> Response:
    made = await rooms.calendars.set(
        name, body.days, title=body.title, version=version_from(if_match), reason=body.reason
    )  # fmt: skip
    return answer(made, ETag=etag(made.version))


@router.delete(
    "/calendars/{name}", operation_id="delete_calendar", summary="Delete a calendar that no schedule uses",
    status_code=204, responses=refuses(404, 409),
)  # fmt: skip
async def delete(
    name: CalendarName,
    reason: Annotated[AuditReason, Query()] = "",
    rooms: CallerRooms = rooms_for(Calendars.delete),
) -> Response:
    await rooms.calendars.delete(name, reason=reason)
    return Response(status_code=204)
