"""Schedules: every verb of theirs behind ``/schedules``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from horae.actions import firing, schedules
from horae.core.access import Caller
from horae.core.cursors import cursor_from, read_cursor
from horae.core.fires import Schedule
from horae.core.instants import instant, micros
from horae.core.payloads import name
from horae.errors import InvalidInput
from horae.ports import ScheduleFilter
from horae.service.addresses import GROUPS, only_meaning
from horae.service.inputs import Because, IfMatch, Key, Tenant, Why, Word, etag, version_from
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.schedule_shapes import (
    Backfilled,
    BackfillRange,
    ChangedSchedule,
    FirePage,
    FireShape,
    Group,
    NewSchedule,
    Preview,
    ScheduleDetail,
    SchedulePage,
    ScheduleShape,
    TallyShape,
    TriggeredSchedule,
    TriggerSchedule,
    Version,
    Versions,
)
from horae.service.state import Here, needs

router = APIRouter(prefix="/schedules", tags=["schedules"])
Admin = Annotated[Caller, Depends(needs("admin"))]
Reader = Annotated[Caller, Depends(needs("admin", by_queue=True))]  # what is limited to queues sees what fires there
SHOWN = 1000  # fires of a backfill in one answer
FARTHEST = 2**62  # microseconds: no row has a later instant


@router.get("", operation_id="list_schedules", summary="Schedules, by key", responses=refuses(404))
def list_schedules(
    world: Here,
    caller: Reader,
    owner: Tenant = None,
    group: Word = None,
    handler: Word = None,
    kind: Literal["cron", "every", "once", "after"] | None = None,
    mode: Literal["SINGLE_NODE", "ALL_NODES"] | None = None,
    enabled: bool | None = None,
    declared: bool | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> SchedulePage:
    wanted = ScheduleFilter(
        owner=caller.among(owner),
        group=group,
        handler=handler,
        kind=kind,
        mode=mode,
        enabled=enabled,
        declared=declared,
        queues=tuple(sorted(caller.queues)),
    )
    begin = read_cursor(cursor, str, int)
    after = None if begin is None else _mark(*begin)
    size = min(limit, schedules.MAX_PAGE - 1)
    found = schedules.find(world, wanted, limit=size + 1, after=after)
    last = found[size - 1] if len(found) > size else None
    return SchedulePage(
        schedules=[ScheduleShape.of(each) for each in found[:size]],
        next_cursor=None if last is None else cursor_from([last.key, last.number]),
    )


@router.post(
    "", operation_id="create_schedule", summary="Make a schedule", status_code=201, responses=refuses(404, 409)
)
def create(world: Here, caller: Admin, told: NewSchedule, response: Response, owner: Tenant = None) -> ScheduleShape:
    new = told.schedule(caller.whose(owner))
    return _shown(schedules.create(world, new, actor=caller.actor, reason=told.reason), response)


@router.post(
    "/groups/{group:path}/pause",
    operation_id="pause_schedule_group",
    summary="Pause a group of schedules",
    responses=refuses(404, 409),
)
def pause_group(world: Here, caller: Admin, group: str, told: Because | None = None, owner: Tenant = None) -> Group:
    named, mine = name(group, "group"), caller.whose(owner)
    only_meaning(world, f"the group {named!r}", f"{GROUPS}/{named}", mine)
    done = schedules.pause_group(world, named, owner=mine, actor=caller.actor, reason=_why(told))
    return Group(group=group, changed=[each.key for each in done])


@router.post(
    "/groups/{group:path}/resume",
    operation_id="resume_schedule_group",
    summary="Resume a group of schedules",
    responses=refuses(404, 409),
)
def resume_group(world: Here, caller: Admin, group: str, told: Because | None = None, owner: Tenant = None) -> Group:
    named, mine = name(group, "group"), caller.whose(owner)
    only_meaning(world, f"the group {named!r}", f"{GROUPS}/{named}", mine)
    done = schedules.resume_group(world, named, owner=mine, actor=caller.actor, reason=_why(told))
    return Group(group=group, changed=[each.key for each in done])


@router.post(
    "/{key:path}/pause", operation_id="pause_schedule", summary="No fires until it is resumed", responses=refuses(404)
)
def pause(
    world: Here, caller: Admin, key: Key, response: Response, told: Because | None = None, owner: Tenant = None
) -> ScheduleShape:
    mine = caller.whose(owner)
    return _shown(schedules.pause(world, key, owner=mine, actor=caller.actor, reason=_why(told)), response)


@router.post(
    "/{key:path}/resume", operation_id="resume_schedule", summary="Fire again from now on", responses=refuses(404)
)
def resume(
    world: Here, caller: Admin, key: Key, response: Response, told: Because | None = None, owner: Tenant = None
) -> ScheduleShape:
    mine = caller.whose(owner)
    return _shown(schedules.resume(world, key, owner=mine, actor=caller.actor, reason=_why(told)), response)


@router.post("/{key:path}/trigger", operation_id="trigger_schedule", summary="Run it once, now", responses=refuses(404))
def trigger(
    world: Here, caller: Admin, key: Key, told: TriggerSchedule | None = None, owner: Tenant = None
) -> TriggeredSchedule:
    """Enabled or not; it obeys overlap, leaves the rhythm alone and is not retried."""
    given, mine = told or TriggerSchedule(), caller.whose(owner)
    done = firing.trigger(world, key, given.parameters, owner=mine, actor=caller.actor, reason=given.reason)
    return TriggeredSchedule(key=key, triggered=done.ran, job_id=done.job_id, reason=done.fire.reason)


@router.post(
    "/{key:path}/backfill", operation_id="backfill_schedule", summary="Make up for missed fires", responses=refuses(404)
)
def backfill(world: Here, caller: Admin, key: Key, told: BackfillRange, owner: Tenant = None) -> Backfilled:
    """Only what lies behind and never became a job; at most 10,000 fires with one call."""
    done = firing.backfill(
        world,
        key,
        told.start,
        told.end,
        dry_run=told.dry_run,
        spread=timedelta(seconds=told.spread),
        owner=caller.whose(owner),
        actor=caller.actor,
        reason=told.reason,
    )
    return Backfilled(
        fires=list(done.fires[:SHOWN]),
        missing=len(done.fires),
        present=done.present,
        job_ids=list(done.job_ids),
        dry_run=told.dry_run,
    )


@router.get(
    "/{key:path}/preview", operation_id="preview_schedule", summary="Its next fires", responses=refuses(404, 409)
)
def preview(
    world: Here, caller: Reader, key: Key, count: Annotated[int, Query(ge=1, le=1000)] = 5, owner: Tenant = None
) -> Preview:
    mine = caller.whose(owner)
    only_meaning(world, f"the next fires of {key!r}", f"{key}/preview", mine)
    found = schedules.get(world, key, owner=mine, queues=caller.queues)
    return Preview(key=key, fires=schedules.preview(world, found, count))


@router.get(
    "/{key:path}/history",
    operation_id="list_schedule_fires",
    summary="What became of each due fire",
    responses=refuses(404, 409),
)
def history(
    world: Here, caller: Reader, key: Key, limit: Limit = 50, cursor: Cursor = None, owner: Tenant = None
) -> FirePage:
    """The newest first. All records of one instant stay together, so a page may be a little longer than asked for."""
    begin = read_cursor(cursor, int)
    if begin is not None and not 0 <= begin[0] <= FARTHEST // 100:
        raise InvalidInput("This cursor was not made here; use next_cursor of the page before, as it is.")
    before, mine = None if begin is None else instant(begin[0]), caller.whose(owner)
    only_meaning(world, f"the history of {key!r}", f"{key}/history", mine)
    found = schedules.history(world, key, owner=mine, queues=caller.queues, limit=limit, before=before)
    more = cursor_from([micros(found[-1][0].fire_at)]) if len(found) >= limit else None
    return FirePage(fires=[FireShape.of(*each) for each in found], next_cursor=more)


@router.get(
    "/{key:path}/versions",
    operation_id="list_schedule_versions",
    summary="Who changed it, how and why",
    responses=refuses(404, 409),
)
def versions(world: Here, caller: Reader, key: Key, limit: Limit = 50, owner: Tenant = None) -> Versions:
    mine = caller.whose(owner)
    only_meaning(world, f"the versions of {key!r}", f"{key}/versions", mine)
    found = schedules.versions(world, key, owner=mine, queues=caller.queues, limit=limit)
    return Versions(versions=[Version.of(each) for each in found])


@router.get(
    "/{key:path}", operation_id="get_schedule", summary="One schedule, and how its runs went", responses=refuses(404)
)
def get(world: Here, caller: Reader, key: Key, response: Response, owner: Tenant = None) -> ScheduleDetail:
    with world.store.moment():
        found = schedules.get(world, key, owner=caller.whose(owner), queues=caller.queues)
        tally = schedules.tally(world, found)
    response.headers["ETag"] = etag(found.version)
    return ScheduleDetail.of(found).model_copy(update={"runs": TallyShape.of(tally)})


@router.patch(
    "/{key:path}", operation_id="change_schedule", summary="Change a schedule", responses=refuses(404, 409, 412)
)
def change(
    world: Here,
    caller: Admin,
    key: Key,
    told: ChangedSchedule,
    response: Response,
    if_match: IfMatch = None,
    owner: Tenant = None,
) -> ScheduleShape:
    """Only what is named; the next fire is computed anew. With `If-Match`, only if nobody changed it meanwhile."""
    changed = schedules.change(
        world,
        key,
        told.values(),
        owner=caller.whose(owner),
        version=version_from(if_match),
        actor=caller.actor,
        reason=told.reason,
    )
    return _shown(changed, response)


@router.delete(
    "/{key:path}",
    operation_id="delete_schedule",
    summary="Forget a schedule",
    status_code=204,
    responses=refuses(404, 409),
)
def delete(world: Here, caller: Admin, key: Key, owner: Tenant = None, reason: Annotated[Why, Query()] = "") -> None:
    """Its fires go with it; jobs that it made live on."""
    schedules.delete(world, key, owner=caller.whose(owner), actor=caller.actor, reason=reason)


def _shown(schedule: Schedule, response: Response) -> ScheduleShape:
    response.headers["ETag"] = etag(schedule.version)
    return ScheduleShape.of(schedule)


def _why(told: Because | None) -> str:
    return "" if told is None else told.reason


def _mark(key: str, number: int) -> Schedule:
    """Where the page before ended, as the store wants to be told."""
    if not key.isprintable() or len(key) > 200 or not 0 <= number < 2**63:
        raise InvalidInput("This cursor was not made here; use next_cursor of the page before, as it is.")
    return Schedule(key, "-", "after", "", number=number)
