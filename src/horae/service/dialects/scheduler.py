"""Document 004's verbs on definitions (S4-13): ``/scheduler/jobs/{key}/start``, ``schedule``, ``stop``,
``trigger``, and its two lists. They stand beside document 000's jobs of the same prefix; no verb is in both (C-37).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query
from pydantic import AfterValidator

from horae.actions import logs
from horae.actions.consistency import moment
from horae.actions.jobs import jobs
from horae.actions.jobs.masking import mask_for_readers
from horae.actions.jobs.nodes import find_nodes
from horae.actions.jobs.reasons import SILENT
from horae.actions.jobs.requests import DEFAULT_QUEUE, Request
from horae.actions.schedules import fires as firing
from horae.actions.schedules import scheduler_dialect, schedules, toggles
from horae.actions.shards import refuse_partial
from horae.core.access.callers import Caller
from horae.core.cursors import MAX_PAGE
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import EPOCH
from horae.errors import InvalidInput, NotFound
from horae.ports.logs import LogFilter
from horae.ports.schedules import ScheduleFilter
from horae.ports.world import World
from horae.service.dialects.scheduler_shapes import (
    Arranged,
    Execution,
    ExecutionTriggered,
    ScheduledJob,
    SchedulerStatus,
    StartJob,
    TimeOfDay,
)
from horae.service.inputs import TextFilter, check_one_line, seconds_text
from horae.service.problems import refuses
from horae.service.router import make_router
from horae.service.state import CurrentService, CurrentWorld, Service, require_scopes

router = make_router(prefix="/scheduler", tags=["scheduler"])
AdminCaller = Annotated[Caller, Depends(require_scopes("admin"))]
JobKey = Annotated[
    str,
    Path(
        min_length=1, max_length=200, description="A job of `available_jobs`, or a schedule.", examples=["sync_daily"]
    ),
    AfterValidator(check_one_line),
]
MOST_EXECUTIONS = 100


@router.post(
    "/jobs/{key:path}/start",
    operation_id="compat_start_job",
    summary="Run a job every so many minutes",
    responses=refuses(404, 409),
)
def start(
    world: CurrentWorld, service: CurrentService, caller: AdminCaller, key: JobKey, body: StartJob | None = None
) -> Arranged:
    """Now and then every `interval_minutes`, also after a restart. Without a body, a job that was stopped goes on at
    the times that it had."""
    handler, queue = _find_handler(world, service, key)
    if body is None:
        return Arranged.of(_restart(world, key, caller), "started")
    made = scheduler_dialect.arrange(
        world, key, handler, "every", seconds_text(body.interval_minutes * 60), queue=queue, actor=caller.actor
    )
    return Arranged.of(made, "started")


@router.post(
    "/jobs/{key:path}/schedule",
    operation_id="compat_schedule_job",
    summary="Run a job every day at a time",
    responses=refuses(404, 409),
)
def schedule(
    world: CurrentWorld, service: CurrentService, caller: AdminCaller, key: JobKey, body: TimeOfDay
) -> Arranged:
    """The job runs every day at this time, also after a restart; without a zone in that of the schedule, else UTC."""
    handler, queue = _find_handler(world, service, key)
    expression = f"{body.minute} {body.hour} * * *"
    made = scheduler_dialect.arrange(
        world, key, handler, "cron", expression, zone=body.timezone, queue=queue, actor=caller.actor
    )
    return Arranged.of(made, "scheduled")


@router.post(
    "/jobs/{key:path}/stop", operation_id="compat_stop_job", summary="Let a job fire no more", responses=refuses(404)
)
def stop(world: CurrentWorld, service: CurrentService, caller: AdminCaller, key: JobKey) -> Arranged:
    """The job keeps its times and can be started again. A job that was never started counts as stopped."""
    try:
        return Arranged.of(toggles.switch(world, key, False, actor=caller.actor), "stopped")
    except NotFound:
        _find_handler(world, service, key)
        return Arranged(job_id=key, status="stopped", enabled=False, trigger="", next_run_time=None)


@router.post(
    "/jobs/{key:path}/trigger", operation_id="compat_trigger_job", summary="Run a job once, now", responses=refuses(404)
)
def trigger(
    world: CurrentWorld,
    service: CurrentService,
    caller: AdminCaller,
    key: JobKey,
    body: Annotated[dict[str, Any] | None, Body(examples=[{"params": {"day": "20300107"}}])] = None,
) -> ExecutionTriggered:
    """Send `{"params": {…}}`, or the parameters themselves as the whole body."""
    parameters = _parameters(body)
    try:
        done = firing.trigger(world, key, parameters, actor=caller.actor)
        return ExecutionTriggered(job_id=key, triggered=done.ran, execution=done.job_id, reason=done.fire.reason)
    except NotFound:
        handler, queue = _find_handler(world, service, key)
        request = Request(handler, parameters, queue, retry=Retry.none())
        return ExecutionTriggered(job_id=key, triggered=True, execution=jobs.enqueue(world, request).id, reason=None)


@router.get("/status", operation_id="compat_get_scheduler_status", summary="What is scheduled, what could be")
def status(world: CurrentWorld, service: CurrentService, caller: AdminCaller) -> SchedulerStatus:
    """The first thousand; `GET /schedules` pages through all of them."""
    refuse_partial(world, caller.resolve_owner(None))
    now = world.clock.now()
    with moment(world):
        nodes = find_nodes(world)
        mine = schedules.find(world, ScheduleFilter(owner=caller.resolve_owner(None), enabled=True), limit=MAX_PAGE)
    return SchedulerStatus(
        is_running=any(node.seen_at > now - SILENT for node in nodes),
        jobs=[ScheduledJob.of(each) for each in mask_for_readers(world, mine) if each.is_active],
        available_jobs=sorted(service.options.handlers()) if caller.is_operator else [],
    )


@router.get("/executions", operation_id="compat_list_executions", summary="The last runs, the newest first")
def executions(
    world: CurrentWorld,
    caller: AdminCaller,
    job_id: TextFilter = None,
    limit: Annotated[int, Query(ge=1, le=2**31, description="At most 100; more is cut.")] = 20,
) -> list[Execution]:
    """Of one job or of all; an unknown job has none."""
    refuse_partial(world, caller.sees)
    wanted = LogFilter(owner=caller.sees) if not job_id else logs.wanted_for(world, job_id, owner=caller.sees)
    found = [Execution.of(line) for line in logs.page(world, wanted, limit=min(limit, MOST_EXECUTIONS))]
    return sorted(found, key=lambda each: each.started_at or EPOCH, reverse=True)


def _restart(world: World, key: str, caller: Caller) -> Schedule:
    try:
        return scheduler_dialect.restart(world, key, actor=caller.actor)
    except NotFound:
        raise InvalidInput("job_never_started", key=key) from None


def _find_handler(world: World, service: Service, key: str) -> tuple[str, str]:
    """Return the handler and the queue behind a key: of its schedule, or of a handler with that name."""
    with suppress(NotFound):
        schedule = schedules.get(world, key)
        return schedule.handler, schedule.queue
    handlers = service.options.handlers()
    if key not in handlers:
        raise NotFound("scheduler_job_unknown", key=key)
    return key, str(getattr(handlers[key], "queue", None) or DEFAULT_QUEUE)


def _parameters(body: dict[str, Any] | None) -> dict[str, Any]:
    if body is None or set(body) != {"params"}:
        return body or {}
    inner = body["params"]
    if inner is not None and not isinstance(inner, dict):
        raise InvalidInput("params_no_object")
    return inner or {}
