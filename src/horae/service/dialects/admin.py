"""Document 003's administration (S3-40): jobs, their log, and cleaning it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Body, Depends, Query
from pydantic import AfterValidator

from horae.actions import logs
from horae.actions.consistency import moment
from horae.actions.jobs.masking import mask_for_readers
from horae.actions.schedules import declared, fires, schedules, toggles
from horae.actions.shards import refuse_partial
from horae.core.access.callers import Caller
from horae.core.cursors import cursor_from, read_cursor
from horae.errors import InvalidInput
from horae.ports.logs import LogFilter
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.service.dialects.admin_shapes import (
    AdminJob,
    AdminJobDetail,
    CleanedLog,
    LogLine,
    LogPage,
    Status,
    TriggeredJob,
    UpdateStatus,
    outcomes_of,
)
from horae.service.fields import Instant
from horae.service.inputs import Tenant, TextFilter, check_one_line, check_storable
from horae.service.paging import Cursor
from horae.service.problems import refuses
from horae.service.router import make_router
from horae.service.state import CurrentWorld, require_scopes

router = make_router(prefix="/admin", tags=["administration"])
AdminCaller = Annotated[Caller, Depends(require_scopes("admin"))]
JobKey = Annotated[
    str, Query(alias="id", min_length=1, max_length=200, examples=["nightly"]), AfterValidator(check_one_line)
]
DEEPEST = 10_000  # rows that can be paged over by number; further only with the cursor


@router.get(
    "/job/list", operation_id="admin_list_jobs", summary="All jobs and how they are doing", responses=refuses(404)
)
def list_jobs(
    world: CurrentWorld,
    caller: AdminCaller,
    owner: Tenant = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    after: TextFilter = None,
) -> list[AdminJob]:
    """Jobs are in the order of their ids; `after` is the last id of the previous page."""
    refuse_partial(world, caller.resolve_owner(owner))
    with moment(world):
        found = schedules.find(world, ScheduleFilter(owner=caller.resolve_owner(owner)), limit=limit, after=after)
        return [AdminJob.of(*pair) for pair in zip(found, declared.statuses(world, found), strict=True)]


@router.get(
    "/job/get", operation_id="admin_get_job", summary="One job: how it is doing, what it runs", responses=refuses(404)
)
def get_job(world: CurrentWorld, caller: AdminCaller, key: JobKey, owner: Tenant = None) -> AdminJobDetail:
    with moment(world):
        found = schedules.get(world, key, owner=caller.resolve_owner(owner))
        seen = mask_for_readers(world, [found])[0]
        return AdminJobDetail.of(seen, declared.statuses(world, [found])[0])


@router.post("/job/trigger", operation_id="admin_trigger_job", summary="Run a job once, now", responses=refuses(404))
def trigger_job(
    world: CurrentWorld,
    caller: AdminCaller,
    key: JobKey,
    owner: Tenant = None,
    parameters: Annotated[dict[str, Any] | None, Body(examples=[{"day": "2030-01-07"}])] = None,
    reason: Annotated[str, Query(max_length=2000), AfterValidator(check_storable)] = "",
) -> TriggeredJob:
    """Enabled or not. The body holds parameters that win over the stored ones. It obeys overlap, leaves the rhythm
    alone and is not retried.
    """
    done = fires.trigger(world, key, parameters, owner=caller.resolve_owner(owner), actor=caller.actor, reason=reason)
    return TriggeredJob(id=key, triggered=done.ran, jobId=done.job_id, reason=done.fire.reason)


@router.put(
    "/job/update-status",
    operation_id="admin_update_job_status",
    summary="Switch a job on or off",
    responses=refuses(404),
)
def update_status(world: CurrentWorld, caller: AdminCaller, body: UpdateStatus, owner: Tenant = None) -> AdminJob:
    """The change is permanent; with `ephemeral` it lasts until a worker of its application starts again."""
    changed = toggles.switch(
        world,
        body.id,
        body.enabled,
        ephemeral=body.ephemeral,
        owner=caller.resolve_owner(owner),
        actor=caller.actor,
        reason=body.reason,
    )
    return AdminJob.of(changed, declared.statuses(world, [changed])[0])


@router.get(
    "/job-log/page", operation_id="admin_page_job_log", summary="The log, the newest run first", responses=refuses(404)
)
def page_log(
    world: CurrentWorld,
    caller: AdminCaller,
    pageNo: Annotated[int, Query(ge=1, le=DEEPEST)] = 1,
    pageSize: Annotated[int, Query(ge=1, le=200)] = 10,
    jobId: TextFilter = None,
    status: Status | None = None,
    began: Annotated[Instant | None, Query(alias="from", description="Started then or later.")] = None,
    to: Annotated[Instant | None, Query(description="Started before.")] = None,
    owner: Tenant = None,
    cursor: Cursor = None,
) -> LogPage:
    """Page by number, or with `cursor` as far as you like."""
    wanted = replace(
        _log_filter(world, jobId, caller.filter_owner(owner)),
        outcomes=() if status is None else outcomes_of(status),
        started_after=began,
        started_before=to,
    )
    before = read_cursor(cursor, int, int)
    if before is not None:
        found = logs.page(world, wanted, limit=pageSize + 1, before=(before[0], before[1]))
        return _page(found, pageSize)
    skipped = (pageNo - 1) * pageSize
    if skipped + pageSize > DEEPEST:
        raise InvalidInput("page_too_deep", most=DEEPEST)
    with moment(world):
        found = logs.page(world, wanted, limit=skipped + pageSize + 1)[skipped:]
        return _page(found, pageSize, pageNo=pageNo, total=logs.count(world, wanted))


@router.get("/job-log/get", operation_id="admin_get_job_log", summary="One run", responses=refuses(404))
def get_log(
    world: CurrentWorld,
    caller: AdminCaller,
    run_id: Annotated[str, Query(alias="id", min_length=1, max_length=50, examples=["job_12.1"])],
) -> LogLine:
    return LogLine.of(logs.get(world, run_id, owner=caller.sees))


@router.delete("/job-log/clean", operation_id="admin_clean_job_log", summary="Forget old runs", responses=refuses(404))
def clean_log(
    world: CurrentWorld,
    caller: AdminCaller,
    before: Annotated[Instant | None, Query(description="Ended before.")] = None,
    olderThanDays: Annotated[float | None, Query(ge=0, le=36_500, allow_inf_nan=False)] = None,
    jobId: TextFilter = None,
    owner: Tenant = None,
    dry_run: Annotated[bool, Query(description="Only count.")] = False,
    confirm: Annotated[bool, Query(description="Yes, older than 14 days, though I said no age.")] = False,
    reason: Annotated[str, Query(max_length=2000), AfterValidator(check_storable)] = "",
) -> CleanedLog:
    """By age, of all jobs or of one, in small batches; at most 10,000 rows with one call. Runs of jobs that wait, run
    or are dead stay.
    """
    if before is not None and olderThanDays is not None:
        raise InvalidInput("before_and_age")
    now = world.clock.now()
    edge = before or now - (logs.KEEP if olderThanDays is None else timedelta(days=olderThanDays))
    wanted = _log_filter(world, jobId, caller.filter_owner(owner))
    if before is None and olderThanDays is None and not (dry_run or confirm):
        would = logs.clean(world, edge, wanted)
        raise InvalidInput("cleaning_not_confirmed", days=logs.KEEP.days, count=would.removed)
    done = logs.clean(world, edge, wanted, dry_run=dry_run, actor=caller.actor, reason=reason)
    return CleanedLog(removed=done.removed, before=done.before, dry_run=done.dry_run, more=done.more)


def _log_filter(world: World, job: str | None, owner: str | None) -> LogFilter:
    refuse_partial(world, owner)
    return LogFilter(owner=owner) if job is None else logs.wanted_for(world, job, owner=owner)


def _page(found: list[Any], size: int, *, pageNo: int | None = None, total: int | None = None) -> LogPage:
    lines, last = found[:size], found[size - 1].run if len(found) > size else None
    return LogPage(
        list=[LogLine.of(line) for line in lines],
        total=total,
        pageNo=pageNo,
        pageSize=size,
        next_cursor=None if last is None else cursor_from([last.job_number, last.token]),
    )
