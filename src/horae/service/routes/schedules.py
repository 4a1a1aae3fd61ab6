"""``/schedules`` and ``/forecast``: when handlers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi.responses import Response
from pydantic import ConfigDict, Field

from horae.actions.schedules.forecast import LONGEST, MOST_NEXT
from horae.actions.schedules.schedules import MOST_RESULTS
from horae.actions.schedules.timetable import MOST_DAYS
from horae.api.operation import Page
from horae.api.schedules.keys import GROUPS
from horae.api.schedules.room import Schedules
from horae.api.schedules.timetable import Timetable
from horae.api.schedules.values import (
    Backfilled,
    ChangedGroup,
    Fire,
    Forecast,
    Preview,
    Schedule,
    ScheduleDetail,
    Timing,
    Triggered,
    UpcomingFire,
    Version,
)
from horae.service.addresses import refuse_ambiguous
from horae.service.fields import Instant, Query, SpanField
from horae.service.inputs import (
    AuditReason,
    IfMatch,
    OperationReason,
    ReasonBody,
    ScheduleKey,
    Tenant,
    TextFilter,
    etag,
    version_from,
)
from horae.service.models import Model, model_of, value_of
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, answer_in_words, rooms_for
from horae.service.router import make_router

router = make_router(tags=["schedules"])
HOURS = LONGEST.total_seconds() / 3600
NOTHING = ReasonBody()
if TYPE_CHECKING:
    TimingBody = Model
else:
    TimingBody = model_of(Timing, "Timing")


class ChangedSchedule(TimingBody):
    """Only what is named changes; null lifts what may be absent. Spans are seconds."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cron": "0 4 * * *", "reason": "the night got short"}]})

    reason: AuditReason = ""


class NewSchedule(TimingBody):
    """The fields of a schedule: one of cron, every, once and after, and options. Spans are seconds."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"key": "nightly", "handler": "report", "cron": "0 3 * * *", "zone": "Europe/Berlin"}]
        }
    )

    key: Annotated[
        str,
        Field(
            min_length=1, max_length=200, description="Slashes are fine, unless a path with it means something else."
        ),
    ]
    reason: AuditReason = ""


class PauseSchedule(OperationReason):
    """Until when, where the pause ends by itself."""

    until: Instant | None = Field(default=None, description="The pause ends then; without it, when it is resumed.")


PAUSED = PauseSchedule()


class TriggerSchedule(OperationReason):
    """Values for this run, in addition to the stored payload."""

    parameters: dict[str, Any] | None = Field(default=None, description="They win over the stored payload.")


AS_STORED = TriggerSchedule()


class BackfillRange(OperationReason):
    """The range of missed fires. By default they are only counted; `dry_run: false` enqueues them."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"start": "2030-01-01T00:00:00Z", "end": "2030-01-07T00:00:00Z"}]}
    )

    start: Instant
    end: Instant
    spread: SpanField = Field(default=0, description="Seconds over which the jobs are spread.")
    dry_run: bool = True


# -- look --------------------------------------------------------------------------------------------------------------


@router.get(
    "/schedules", operation_id="list_schedules", summary="Schedules, by key", response_model=Page[Schedule],
    responses=refuses(404),
)  # fmt: skip
async def list_(
    owner: Tenant = None,
    group: TextFilter = None,
    handler: TextFilter = None,
    kind: Literal["cron", "every", "once", "after"] | None = None,
    mode: Literal["SINGLE_NODE", "ALL_NODES"] | None = None,
    enabled: bool | None = None,
    declared: bool | None = None,
    text: Annotated[TextFilter, Query(description="Somewhere in its key, title or handler.")] = None,
    order: Annotated[Literal["key", "next"], Query(description="By key, or by when they are due next.")] = "key",
    results: Annotated[int, Query(ge=0, le=MOST_RESULTS, description="So many of the last results of each.")] = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(Schedules.list),
) -> Response:
    """Each filter narrows the list."""
    found = rooms.schedules.list(
        owner=owner, group=group, handler=handler, kind=kind, mode=mode, enabled=enabled, declared=declared,
        text=text, order=order, results=results,
    )  # fmt: skip
    return answer(await found.page(cursor, limit=limit))


@router.post(
    "/schedules", operation_id="create_schedule", summary="Make a schedule", status_code=201, response_model=Schedule,
    responses=refuses(404, 409),
)  # fmt: skip
async def create(body: NewSchedule, owner: Tenant = None, rooms: CallerRooms = rooms_for(Schedules.create)) -> Response:
    timing = value_of(Timing, body)
    return _answer_with_etag(await rooms.schedules.create(body.key, owner=owner, reason=body.reason, **timing), 201)


@router.post(
    "/schedules/groups/{group:path}/pause", operation_id="pause_schedule_group", summary="Pause a group of schedules",
    response_model=ChangedGroup, responses=refuses(404, 409),
)  # fmt: skip
async def pause_group(
    group: str,
    body: PauseSchedule = PAUSED,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.pause_group),
) -> Response:
    await refuse_ambiguous(rooms, f"the group {group!r}", f"{GROUPS}/{group}", owner)
    return answer(await rooms.schedules.pause_group(group, until=body.until, owner=owner, reason=body.reason))


@router.post(
    "/schedules/groups/{group:path}/resume", operation_id="resume_schedule_group",
    summary="Resume a group of schedules", response_model=ChangedGroup, responses=refuses(404, 409),
)  # fmt: skip
async def resume_group(
    group: str, body: ReasonBody = NOTHING, owner: Tenant = None, rooms: CallerRooms = rooms_for(Schedules.resume_group)
) -> Response:
    await refuse_ambiguous(rooms, f"the group {group!r}", f"{GROUPS}/{group}", owner)
    return answer(await rooms.schedules.resume_group(group, owner=owner, reason=body.reason))


@router.post(
    "/schedules/{key:path}/pause", operation_id="pause_schedule", summary="No fires until it is resumed",
    response_model=Schedule, responses=refuses(404),
)  # fmt: skip
async def pause(
    key: ScheduleKey,
    body: PauseSchedule = PAUSED,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.pause),
) -> Response:
    return _answer_with_etag(await rooms.schedules.pause(key, until=body.until, owner=owner, reason=body.reason))


@router.post(
    "/schedules/{key:path}/resume", operation_id="resume_schedule", summary="Fire again from now on",
    response_model=Schedule, responses=refuses(404),
)  # fmt: skip
async def resume(
    key: ScheduleKey, body: ReasonBody = NOTHING, owner: Tenant = None, rooms: CallerRooms = rooms_for(Schedules.resume)
) -> Response:
    return _answer_with_etag(await rooms.schedules.resume(key, owner=owner, reason=body.reason))


@router.post(
    "/schedules/{key:path}/trigger", operation_id="trigger_schedule", summary="Run it once, now",
    response_model=Triggered, responses=refuses(404),
)  # fmt: skip
async def trigger(
    key: ScheduleKey,
    body: TriggerSchedule = AS_STORED,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.trigger),
) -> Response:
    """Enabled or not; it obeys overlap, leaves the rhythm alone and is not retried."""
    return answer(await rooms.schedules.trigger(key, body.parameters, owner=owner, reason=body.reason))


@router.post(
    "/schedules/{key:path}/backfill", operation_id="backfill_schedule", summary="Make up for missed fires",
    response_model=Backfilled, responses=refuses(404),
)  # fmt: skip
async def backfill(
    key: ScheduleKey, body: BackfillRange, owner: Tenant = None, rooms: CallerRooms = rooms_for(Schedules.backfill)
) -> Response:
    """Makes jobs only for past fires that never became a job; at most 10,000 with one call."""
    how: Any = {"spread": body.spread, "dry_run": body.dry_run, "reason": body.reason}
    return answer(await rooms.schedules.backfill(key, body.start, body.end, owner=owner, **how))


@router.get(
    "/schedules/{key:path}/preview", operation_id="preview_schedule", summary="Its next fires", response_model=Preview,
    responses=refuses(404, 409),
)  # fmt: skip
async def preview(
    key: ScheduleKey,
    count: Annotated[int, Query(ge=1, le=1000)] = 5,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.preview),
) -> Response:
    await refuse_ambiguous(rooms, f"the next fires of {key!r}", f"{key}/preview", owner)
    return answer(await rooms.schedules.preview(key, count=count, owner=owner))


@router.get(
    "/schedules/{key:path}/history", operation_id="list_schedule_fires", summary="What became of each due fire",
    response_model=Page[Fire], responses=refuses(404, 409),
)  # fmt: skip
async def history(
    key: ScheduleKey,
    limit: Limit = 50,
    cursor: Cursor = None,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.history),
) -> Response:
    """Newest first. All records of one instant stay together, so a page may be a little longer than asked for."""
    await refuse_ambiguous(rooms, f"the history of {key!r}", f"{key}/history", owner)
    return answer(await rooms.schedules.history(key, owner=owner).page(cursor, limit=limit))


@router.get(
    "/schedules/{key:path}/versions", operation_id="list_schedule_versions", summary="Who changed it, how and why",
    response_model=Page[Version], responses=refuses(404, 409),
)  # fmt: skip
async def versions(
    key: ScheduleKey, limit: Limit = 50, owner: Tenant = None, rooms: CallerRooms = rooms_for(Schedules.versions)
) -> Response:  # fmt: skip
    await refuse_ambiguous(rooms, f"the versions of {key!r}", f"{key}/versions", owner)
    return answer(await rooms.schedules.versions(key, owner=owner, limit=limit))


@router.get(
    "/schedules/{key:path}", operation_id="get_schedule", summary="One schedule, how its runs went, why it is silent",
    response_model=ScheduleDetail, responses=refuses(404),
)  # fmt: skip
async def get(key: ScheduleKey, owner: Tenant = None, rooms: CallerRooms = rooms_for(Schedules.get)) -> Response:
    return _answer_with_etag(await rooms.schedules.get(key, owner=owner))


@router.patch(
    "/schedules/{key:path}", operation_id="change_schedule", summary="Change a schedule", response_model=Schedule,
    responses=refuses(404, 409, 412),
)  # fmt: skip
async def change(
    key: ScheduleKey,
    body: ChangedSchedule,
    if_match: IfMatch = None,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.change),
) -> Response:
    """Changes only the given fields and computes the next fire again. With `If-Match`, only that version."""
    version, timing = version_from(if_match), value_of(Timing, body)
    return _answer_with_etag(
        await rooms.schedules.change(key, version=version, owner=owner, reason=body.reason, **timing)
    )


@router.delete(
    "/schedules/{key:path}", operation_id="delete_schedule", summary="Forget a schedule", status_code=204,
    response_class=Response, responses=refuses(404, 409),
)  # fmt: skip
async def delete(
    key: ScheduleKey,
    owner: Tenant = None,
    reason: Annotated[AuditReason, Query()] = "",
    rooms: CallerRooms = rooms_for(Schedules.delete),
) -> None:
    """Its fires are deleted too; its jobs stay."""
    await rooms.schedules.delete(key, owner=owner, reason=reason)


@router.get(
    "/forecast", operation_id="get_forecast", summary="The next fires of all schedules", response_model=Forecast,
    responses=refuses(404),
)  # fmt: skip
async def forecast(
    hours: Annotated[float, Query(gt=0, le=HOURS, allow_inf_nan=False)] = 24,
    limit: Limit = 100,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.forecast),
) -> Response:
    """Computed from the current rules: paused and disabled schedules do not fire."""
    return answer(await rooms.schedules.forecast(hours=hours, owner=owner, limit=limit))


@router.get(
    "/forecast/next", operation_id="get_next_fires", summary="The fires that come next",
    response_model=Page[UpcomingFire], responses=refuses(404),
)  # fmt: skip
async def next_fires(
    limit: Annotated[int, Query(ge=1, le=MOST_NEXT)] = 20,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.next_fires),
) -> Response:
    """Quick with any number of schedules; jobs that every node runs by itself are not among them."""
    return answer(await rooms.schedules.next_fires(owner=owner, limit=limit))


@router.get(
    "/forecast/timetable", operation_id="get_timetable", summary="Fires by hour, behind and ahead",
    response_model=Timetable, responses=refuses(404),
)  # fmt: skip
async def timetable(
    days: Annotated[int, Query(ge=1, le=MOST_DAYS, description="How far ahead.")] = 14,
    past: Annotated[int, Query(ge=0, le=MOST_DAYS, description="How far back.")] = 7,
    zone: Annotated[str, Query(max_length=64, description="Whose hours.", examples=["Asia/Shanghai"])] = "UTC",
    hour: Annotated[Instant | None, Query(description="List the schedules of this hour too.")] = None,
    owner: Tenant = None,
    rooms: CallerRooms = rooms_for(Schedules.timetable),
) -> Response:
    """Computed from the current rules and from records; bounded, and the answer says how far it reaches."""
    return answer(await rooms.schedules.timetable(days=days, past=past, zone=zone, hour=hour, owner=owner))


def _answer_with_etag(schedule: Schedule, status: int = 200) -> Response:
    """Return a schedule with its version as the ETag."""
    return answer_in_words(schedule, status, ETag=etag(schedule.version))
