"""Users' own scheduled tasks over HTTP (document 001)."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response

from horae.actions import tasks
from horae.core.access import Caller
from horae.core.cursors import cursor_from, read_cursor
from horae.core.instants import micros
from horae.core.tasks import Terms
from horae.core.words import Language
from horae.errors import InvalidInput
from horae.service.fields import MOST
from horae.service.inputs import Because, IfMatch, Tenant
from horae.service.paging import Cursor, Limit
from horae.service.problems import refuses
from horae.service.state import Here, How, needs
from horae.service.task_shapes import (
    TaskBody,
    TaskPage,
    TaskPreview,
    TaskReasons,
    TaskRunPage,
    TaskRunShape,
    TaskShape,
    TriggerBody,
    TriggeredTask,
)

router = APIRouter(prefix="/scheduled-tasks", tags=["scheduled tasks"])
User = Annotated[Caller, Depends(needs("tasks", by_queue=True))]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=255,
        description="The same key with the same body gives the same task; with another body 409.",
    ),
]
Count = Annotated[int, Query(ge=1, le=tasks.MAX_PREVIEW, description="How many runs.")]
NOT_OURS = "This cursor was not made here; use next_cursor of the page before, as it is."
_ETAG = re.compile(r'\s*(?:W/)?"([0-9]{1,9})(?:\.[0-9a-f]{1,64})?"\s*')


def terms_of(service: How, caller: User) -> Terms:
    """What the operator decided about tasks, and what the caller's token is limited to."""
    options = service.options
    handlers = options.handlers()
    return Terms(
        shortest=options.shortest_interval,
        max_enabled=options.max_enabled_tasks,
        handler=options.task_handler,
        handlers=options.task_handlers,
        known=frozenset(handlers) or None,  # a service beside no worker does not know what workers can do
        queues={name: getattr(each, "queue", "default") for name, each in handlers.items()},
        only_queues=caller.queues,
    )


def language_of(
    lang: Annotated[
        Literal["en", "zh"] | None, Query(description="In which language; else as the browser says.")
    ] = None,
    accept_language: Annotated[str | None, Header(max_length=1000)] = None,
) -> Language:
    return lang or preferred(accept_language or "")


UsualTerms = Annotated[Terms, Depends(terms_of)]
Lang = Annotated[Language, Depends(language_of)]


@router.get("", operation_id="list_tasks", summary="Your tasks, the last changed first", responses=refuses(404))
def list_tasks(
    world: Here, caller: User, lang: Lang, user_id: Tenant = None, limit: Limit = 50, cursor: Cursor = None
) -> TaskPage:
    """An operator sees everybody's, user by user, or those of `user_id`."""
    after = read_cursor(cursor, str, int, int)
    where = None if after is None else (_owner(after[0]), _number(after[1]), _number(after[2]))
    found = tasks.find(world, owner=caller.among(user_id), queues=caller.queues, limit=limit, after=where)
    last = found[-1].schedule if len(found) == limit else None
    following = None
    if last is not None and last.updated_at is not None:
        following = cursor_from([last.owner, micros(last.updated_at), last.number])
    return TaskPage(items=[TaskShape.of(each, lang) for each in found], next_cursor=following)


@router.post(
    "",
    operation_id="create_task",
    summary="Make a task",
    status_code=201,
    responses={
        200: {"model": TaskShape, "description": "It was there before: same key, same body."},
        **refuses(400, 409),
    },
)
def create_task(
    body: TaskBody,
    request: Request,
    response: Response,
    world: Here,
    caller: User,
    terms: UsualTerms,
    lang: Lang,
    key: Key = None,
) -> TaskShape:
    """Without `next_run_at` the first run is computed from type, expression and zone; `once` needs it. At most as many
    tasks may be enabled as the operator allows; one more is refused with 409 `quota_exceeded`.
    """
    saved = tasks.create(world, body.wish(), owner=caller.owner, terms=terms, key=key, actor=caller.actor)
    response.status_code = 201 if saved.is_new else 200
    response.headers["Location"] = f"{request.scope.get('root_path', '')}/scheduled-tasks/{saved.facts.schedule.key}"
    return _tagged(response, TaskShape.of(saved.facts, lang, saved.warnings))


@router.post(
    "/preview",
    operation_id="preview_new_task",
    summary="When a task would run that is only thought of",
    responses=refuses(400, 409),
)
def preview_new(
    body: TaskBody, world: Here, caller: User, terms: UsualTerms, lang: Lang, count: Count = 5
) -> TaskPreview:
    seen = tasks.consider(world, body.wish(), owner=caller.owner, terms=terms, count=count)
    return TaskPreview.of(seen, lang, world.clock.now())


@router.get(
    "/{task_id}",
    operation_id="get_task",
    summary="One task, with all that is needed to see why it does or does not run",
    response_model=TaskShape,
    responses={304: {"description": "As it was when `If-None-Match` was given."}, **refuses(404)},
)
def get_task(
    task_id: str,
    response: Response,
    world: Here,
    caller: User,
    lang: Lang,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Any:
    found = tasks.get(world, task_id, **caller.reach)
    shape = _tagged(response, TaskShape.of(found, lang))
    tag = response.headers["ETag"]
    known = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=dict(response.headers))
    return shape


@router.put("/{task_id}", operation_id="update_task", summary="Change a task", responses=refuses(400, 404, 409, 412))
def update_task(
    task_id: str,
    body: TaskBody,
    response: Response,
    world: Here,
    caller: User,
    terms: UsualTerms,
    lang: Lang,
    if_match: IfMatch = None,
) -> TaskShape:
    """What is left out, or null, stays. `next_run_at` is computed anew when type, expression, zone or `enabled` change.
    A running attempt is left alone; a lock that has run out is released.
    """
    saved = tasks.change(
        world,
        task_id,
        body.wish(),
        owner=caller.sees,
        terms=terms,
        versions=versions_from(if_match),
        actor=caller.actor,
    )
    return _tagged(response, TaskShape.of(saved.facts, lang, saved.warnings))


@router.delete(
    "/{task_id}", operation_id="delete_task", summary="Delete a task", status_code=204, responses=refuses(404, 412)
)
def delete_task(task_id: str, world: Here, caller: User, if_match: IfMatch = None) -> None:
    """Its runs go with it. What waits is withdrawn; an attempt under way goes on to its end."""
    tasks.delete(world, task_id, versions=versions_from(if_match), actor=caller.actor, **caller.reach)


@router.get(
    "/{task_id}/runs",
    operation_id="list_task_runs",
    summary="What a task ran, the newest first",
    responses=refuses(404),
)
def list_runs(task_id: str, world: Here, caller: User, limit: Limit = 50, cursor: Cursor = None) -> TaskRunPage:
    """An attempt under way is among them."""
    before = read_cursor(cursor, int, int)
    where = None if before is None else (_number(before[0]), _number(before[1]))
    found = tasks.runs(world, task_id, **caller.reach, limit=limit, before=where)
    last = found[-1].run if len(found) == limit else None
    following = None if last is None else cursor_from([last.job_number, last.token])
    return TaskRunPage(items=[TaskRunShape.of(task_id, each) for each in found], next_cursor=following)


@router.post(
    "/{task_id}/trigger",
    operation_id="trigger_task",
    summary="Run a task once, now",
    status_code=202,
    responses=refuses(404, 409),
)
def trigger_task(
    task_id: str, world: Here, caller: User, body: Annotated[TriggerBody | None, Body()] = None
) -> TriggeredTask:
    """Enabled or not. It obeys overlap (409 while it runs or waits), leaves the rhythm alone and is not retried."""
    asked = body or TriggerBody()
    done, warnings = tasks.trigger(
        world, task_id, asked.payload, actor=caller.actor, reason=asked.reason, **caller.reach
    )
    return TriggeredTask(task_id=task_id, job_id=done.job_id, triggered_at=done.fire.fire_at, warnings=list(warnings))


@router.get("/{task_id}/preview", operation_id="preview_task", summary="When a task will run", responses=refuses(404))
def preview_task(task_id: str, world: Here, caller: User, lang: Lang, count: Count = 5) -> TaskPreview:
    """In UTC and in its zone, with what each change of clocks does to it."""
    seen = tasks.preview(world, task_id, **caller.reach, count=count)
    return TaskPreview.of(seen, lang, world.clock.now())


@router.get(
    "/{task_id}/why", operation_id="explain_task", summary="Why a task does, or does not, run", responses=refuses(404)
)
def explain_task(task_id: str, world: Here, caller: User) -> TaskReasons:
    return TaskReasons.of(*tasks.why(world, task_id, **caller.reach))


@router.post(
    "/{task_id}/release",
    operation_id="release_task",
    summary="Take a running task from its worker",
    responses=refuses(404, 409),
)
def release_task(
    task_id: str,
    response: Response,
    world: Here,
    caller: User,
    lang: Lang,
    body: Annotated[Because | None, Body()] = None,
) -> TaskShape:
    """For a lock that will not go away. The task runs again at once; if the worker is alive after all, it runs twice,
    and what the first one says no longer counts.
    """
    reason = "" if body is None else body.reason
    facts = tasks.release(world, task_id, actor=caller.actor, reason=reason, **caller.reach)
    return _tagged(response, TaskShape.of(facts, lang))


def _tagged(response: Response, shape: TaskShape) -> TaskShape:
    """Before the dot the version, for ``If-Match``; behind it all that is told, for ``If-None-Match``: runs and locks
    come and go without a new version.
    """
    content = hashlib.sha256(shape.model_dump_json(exclude={"warnings"}).encode()).hexdigest()
    response.headers["ETag"] = f'"{shape.version}.{content[:16]}"'
    response.headers["Vary"] = "Accept-Language"
    return shape


def versions_from(if_match: str | None) -> frozenset[int] | None:
    """The versions that a caller would change; None: any."""
    if if_match is None or if_match.strip() == "*":
        return None
    found = [_ETAG.fullmatch(each) for each in if_match.split(",")]
    if None in found:
        raise InvalidInput('If-Match must repeat an ETag as it was given, or name a version such as "3", or be *.')
    return frozenset(int(each[1]) for each in found if each is not None)


def preferred(header: str) -> Language:
    """English or Chinese, whichever an Accept-Language header would rather have."""
    best: tuple[float, Language] = (0.0, "en")
    for part in header.split(","):
        name, _, rest = part.partition(";")
        found = re.fullmatch(r"\s*q=([01](?:\.[0-9]{0,3})?)\s*", rest)
        weight = float(found[1]) if found else 1.0
        language: Language = "zh" if name.strip().lower().startswith("zh") else "en"
        if name.strip().lower()[:2] in ("zh", "en") and weight > best[0]:
            best = (weight, language)
    return best[1]


def _number(value: int) -> int:
    if not 0 <= value <= MOST:
        raise InvalidInput(NOT_OURS)
    return value


def _owner(value: str) -> str:
    if not value.isprintable() or len(value) > 255:
        raise InvalidInput(NOT_OURS)
    return value
