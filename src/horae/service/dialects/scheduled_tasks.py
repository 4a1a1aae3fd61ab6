"""Users' own scheduled tasks over HTTP, in document 001's words, which are the words of the room."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal, cast

from fastapi import Depends, Header, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from horae.actions.scheduled_tasks import MAX_PREVIEW
from horae.api.operation import Page
from horae.api.scheduled_tasks.room import ScheduledTasks
from horae.api.scheduled_tasks.values import (
    ScheduledTask,
    ScheduledTaskRun,
    TaskLimits,
    TaskPreview,
    TaskReasons,
    TaskTerms,
    TriggeredTask,
)
from horae.api.values import to_json
from horae.core.scheduled_tasks.task import LONGEST_NAME
from horae.errors import InvalidInput
from horae.service.inputs import AuditReason, IfMatch, ReasonBody, Tenant, check_storable
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.rooms import CallerRooms, answer, answer_in_words, rooms_for
from horae.service.router import make_router
from horae.words.languages import Language, preferred_language

router = make_router(prefix="/scheduled-tasks", tags=["scheduled tasks"])
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="The same key with the same body gives the same task; with another body 409.",
    ),
]
Count = Annotated[int, Query(ge=1, le=MAX_PREVIEW, description="How many runs.")]
ReasonQuery = Annotated[AuditReason, Query()]
NO_REASON = ReasonBody()
_ETAG = re.compile(r'\s*(?:W/)?"([0-9]{1,9})(?:\.[0-9a-f]{1,64})?"\s*')
AS_STORED: dict[str, Any] = {}
LONGEST_EXPRESSION = 255
Text = Annotated[StrictStr, AfterValidator(check_storable)]

INTERVAL: dict[str, Any] = {
    "name": "demo interval",
    "enabled": True,
    "schedule_type": "interval",
    "schedule_expr": "60",
    "timezone": "UTC",
    "payload": {"text": "remind me to clock in", "context": {"channel": "scheduled_task"}},
}
ONCE: dict[str, Any] = {
    "name": "demo once",
    "schedule_type": "once",
    "timezone": "Asia/Shanghai",
    "next_run_at": "2030-02-27T09:30:00",
    "payload": {"text": "hello"},
}
TASK_ID = "task_6f1c2a9e0b7d4c3f8a5e6d7c8b9a0f1e"


class TaskBody(BaseModel):
    """What a user says about a task. Names that mean nothing here are passed over, so that a task can be sent back as
    it was read.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [INTERVAL, ONCE]})

    name: Annotated[Text, Field(max_length=LONGEST_NAME)] | None = Field(
        default=None, description="Blank: `Scheduled Task`."
    )
    enabled: StrictBool | None = None
    schedule_type: Annotated[Text, Field(max_length=16)] | None = Field(
        default=None, description="`cron` (the default), `interval` or `once`.", examples=["cron"]
    )
    schedule_expr: (
        Annotated[Text, Field(max_length=LONGEST_EXPRESSION)]
        | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
        | None
    ) = Field(
        default=None,
        description="Cron with five fields (empty: every minute), or seconds (zero or less: 60), or nothing for once.",
        examples=["0 9 * * 1-5"],
    )
    timezone: Annotated[Text, Field(max_length=64)] | None = Field(
        default=None, description="An IANA name; `UTC` unless said otherwise.", examples=["Asia/Shanghai"]
    )
    payload: dict[str, Any] | None = Field(default=None, description="What the handler gets; for dispatch `text`.")
    next_run_at: Annotated[Text, Field(max_length=64)] | None = Field(
        default=None,
        description="The first run; once needs it. Without an offset it is a time of the task's own zone.",
        examples=["2030-01-07T09:00:00"],
    )
    handler: Annotated[Text, Field(max_length=200)] | None = Field(
        default=None,
        description="`dispatch` unless said otherwise; `webhook` posts to `payload.url`; `attend` gives the agent "
        "`payload.lane` a task of `payload.kind`.",
    )
    day_match: Annotated[Text, Field(max_length=16)] | None = Field(
        default=None,
        description="Cron that names day and weekday: `and` (the default) runs where both match, `or` where one does.",
        examples=["and"],
    )
    lenient: StrictBool | None = Field(
        default=None, description="Read names (MON, JAN), 7 for Sunday, `@daily`, `?`, L, W and # in cron."
    )

    @property
    def terms(self) -> TaskTerms:
        """The terms that were sent, without nulls."""
        return cast("TaskTerms", self.model_dump(exclude_none=True))


class TriggerBody(BaseModel):
    payload: dict[str, Any] = Field(default=AS_STORED, description="Values that win over the task's own, this once.")
    reason: Annotated[Text, Field(max_length=2000, description="For the audit.")] = ""


NOW = TriggerBody()


def language_of(
    lang: Annotated[
        Literal["en", "zh"] | None, Query(description="In which language; else as the browser says.")
    ] = None,
    accept_language: Annotated[str | None, Header(max_length=1000)] = None,
) -> Language:
    return lang or preferred_language(accept_language or "")


RequestLanguage = Annotated[Language, Depends(language_of)]


@router.get(
    "", operation_id="list_tasks", summary="Your tasks, the last changed first", response_model=Page[ScheduledTask],
    responses=refuses(404),
)  # fmt: skip
async def list_(
    lang: RequestLanguage,
    user_id: Tenant = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    rooms: CallerRooms = rooms_for(ScheduledTasks.list),
) -> Response:
    """An operator sees the tasks of all users, in order of users, or those of `user_id`."""
    return answer(await rooms.scheduled_tasks.list(user_id=user_id, lang=lang).page(cursor, limit=limit))


@router.post(
    "",
    operation_id="create_task",
    summary="Make a task",
    status_code=201,
    response_model=ScheduledTask,
    responses={
        200: {"model": ScheduledTask, "description": "It was there before: same key, same body."},
        **refuses(400, 409),
    },
)
async def create(
    request: Request,
    body: TaskBody,
    lang: RequestLanguage,
    key: IdempotencyKey = None,
    reason: ReasonQuery = "",
    rooms: CallerRooms = rooms_for(ScheduledTasks.create),
) -> Response:
    """Without `next_run_at` the first run is computed from type, expression and zone; `once` needs it. At most as many
    tasks may be enabled as the operator allows; one more is refused with 409 `quota_exceeded`.
    """
    made = await rooms.scheduled_tasks.create(key=key, reason=reason, lang=lang, **body.terms)
    location = f"{request.scope.get('root_path', '')}/scheduled-tasks/{made.id}"
    return _answer_with_etag(made, 200 if made.deduplicated else 201, Location=location)


@router.post(
    "/preview", operation_id="preview_new_task", summary="When a task would run that is only thought of",
    response_model=TaskPreview, responses=refuses(400, 409),
)  # fmt: skip
async def preview_new(
    body: TaskBody, lang: RequestLanguage, count: Count = 5, rooms: CallerRooms = rooms_for(ScheduledTasks.preview_new)
) -> Response:
    return answer(await rooms.scheduled_tasks.preview_new(count=count, lang=lang, **body.terms))


@router.get(
    "/limits", operation_id="get_task_limits", summary="How many tasks you may enable, and what they may run",
    response_model=TaskLimits,
)  # fmt: skip
async def limits(rooms: CallerRooms = rooms_for(ScheduledTasks.limits)) -> Response:
    """`max_enabled` is 0 where any number may be enabled; `enabled` counts those that are."""
    return answer(await rooms.scheduled_tasks.limits())


@router.get(
    "/{task_id}",
    operation_id="get_task",
    summary="One task, with all that is needed to see why it does or does not run",
    response_model=ScheduledTask,
    responses={304: {"description": "As it was when `If-None-Match` was given."}, **refuses(404)},
)
async def get(
    task_id: str,
    lang: RequestLanguage,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
    rooms: CallerRooms = rooms_for(ScheduledTasks.get),
) -> Response:
    found = _answer_with_etag(await rooms.scheduled_tasks.get(task_id, lang=lang))
    known = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
    if found.headers["ETag"] in known or "*" in known:
        return Response(status_code=304, headers={name: found.headers[name] for name in ("ETag", "Vary")})
    return found


@router.put(
    "/{task_id}", operation_id="update_task", summary="Change a task", response_model=ScheduledTask,
    responses=refuses(400, 404, 409, 412),
)  # fmt: skip
async def change(
    task_id: str,
    body: TaskBody,
    lang: RequestLanguage,
    if_match: IfMatch = None,
    reason: ReasonQuery = "",
    rooms: CallerRooms = rooms_for(ScheduledTasks.change),
) -> Response:
    """Fields that are left out or null stay unchanged.

    `next_run_at` is computed again when type, expression, zone or `enabled` change. A running attempt goes on; an
    expired lock is released.
    """
    versions = versions_from(if_match)
    changed = await rooms.scheduled_tasks.change(task_id, version=versions, reason=reason, lang=lang, **body.terms)
    return _answer_with_etag(changed)


@router.delete(
    "/{task_id}", operation_id="delete_task", summary="Delete a task", status_code=204, response_class=Response,
    responses=refuses(404, 412),
)  # fmt: skip
async def delete(
    task_id: str,
    if_match: IfMatch = None,
    reason: ReasonQuery = "",
    rooms: CallerRooms = rooms_for(ScheduledTasks.delete),
) -> None:
    """Its runs are deleted too. A waiting run is withdrawn; an attempt under way goes on to its end."""
    await rooms.scheduled_tasks.delete(task_id, version=versions_from(if_match), reason=reason)


@router.get(
    "/{task_id}/runs", operation_id="list_task_runs", summary="What a task ran, the newest first",
    response_model=Page[ScheduledTaskRun], responses=refuses(404),
)  # fmt: skip
async def runs(
    task_id: str, limit: Limit = 50, cursor: Cursor = None, rooms: CallerRooms = rooms_for(ScheduledTasks.runs)
) -> Response:
    """The list includes an attempt under way."""
    return answer(await rooms.scheduled_tasks.runs(task_id).page(cursor, limit=limit))


@router.post(
    "/{task_id}/trigger", operation_id="trigger_task", summary="Run a task once, now", status_code=202,
    response_model=TriggeredTask, responses=refuses(404, 409),
)  # fmt: skip
async def trigger(
    task_id: str, body: TriggerBody = NOW, rooms: CallerRooms = rooms_for(ScheduledTasks.trigger)
) -> Response:
    """Enabled or not. It obeys overlap (409 while it runs or waits), leaves the rhythm alone and is not retried."""
    return answer(await rooms.scheduled_tasks.trigger(task_id, body.payload, reason=body.reason), 202)


@router.get(
    "/{task_id}/preview", operation_id="preview_task", summary="When a task will run", response_model=TaskPreview,
    responses=refuses(404),
)  # fmt: skip
async def preview(
    task_id: str, lang: RequestLanguage, count: Count = 5, rooms: CallerRooms = rooms_for(ScheduledTasks.preview)
) -> Response:  # fmt: skip
    """Times are given in UTC and in the task's zone, with the effect of each change of clocks."""
    return answer(await rooms.scheduled_tasks.preview(task_id, count=count, lang=lang))


@router.get(
    "/{task_id}/why", operation_id="explain_task", summary="Why a task does, or does not, run",
    response_model=TaskReasons, responses=refuses(404),
)  # fmt: skip
async def why(task_id: str, rooms: CallerRooms = rooms_for(ScheduledTasks.why)) -> Response:
    return answer_in_words(await rooms.scheduled_tasks.why(task_id))


@router.post(
    "/{task_id}/release", operation_id="release_task", summary="Take a running task from its worker",
    response_model=ScheduledTask, responses=refuses(404, 409),
)  # fmt: skip
async def release(
    task_id: str,
    lang: RequestLanguage,
    body: ReasonBody = NO_REASON,
    rooms: CallerRooms = rooms_for(ScheduledTasks.release),
) -> Response:
    """Use it for a lock whose worker is dead. The task runs again at once.

    If that worker is alive after all, the task runs twice, and the first worker's result is refused.
    """
    return _answer_with_etag(await rooms.scheduled_tasks.release(task_id, reason=body.reason, lang=lang))


def _answer_with_etag(task: ScheduledTask, status: int = 200, **headers: str) -> Response:
    """Return a task with its ETag: before the dot the version, for ``If-Match``; behind it a digest of all fields, for
    ``If-None-Match``, as runs and locks change without a new version.
    """
    content = {name: value for name, value in to_json(task).items() if name not in ("warnings", "deduplicated")}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return answer(task, status, ETag=f'"{task.version}.{digest[:16]}"', Vary="Accept-Language", **headers)


def versions_from(if_match: str | None) -> frozenset[int] | None:
    """Return the versions in an If-Match header; None for any."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = [_ETAG.fullmatch(each) for each in if_match.split(",")]
    if None in found:
        raise InvalidInput("if_match_unreadable")
    return frozenset(int(each[1]) for each in found if each is not None)
