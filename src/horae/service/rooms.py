"""The rooms of a caller, as a dependency: each endpoint is a line over one operation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from horae.api.here import Here
from horae.api.operation import AsyncSender, Method
from horae.api.rooms import Rooms
from horae.api.senders.local_async import LocalAsync
from horae.api.values import as_list, to_json
from horae.api.wording import translated
from horae.core.access.callers import Caller
from horae.core.scheduled_tasks.task import Terms
from horae.service import languages
from horae.service.options import Options
from horae.service.state import require_scopes, service_of, world_of

CallerRooms = Rooms[AsyncSender]
ROUTE_OPERATIONS: dict[Callable[..., object], Method[..., Any, Any, Any]] = {}  # the operation behind a dependency


def rooms_for(operation: Method[..., Any, Any, Any]) -> Any:
    """Return a dependency that gives the caller's rooms, and refuses a caller without the scopes of the operation."""
    allowed = _allowed(operation)

    async def rooms(request: Request, caller: Caller = Depends(allowed)) -> CallerRooms:
        options = service_of(request).options
        here = Here(
            world_of(request), caller, options.max_unfinished_jobs, lambda: terms_of(options), lambda: options.sealer
        )
        return Rooms(LocalAsync(lambda: here, run_in_threadpool))

    ROUTE_OPERATIONS[rooms] = operation
    return Depends(rooms)


def caller_for(operation: Method[..., Any, Any, Any]) -> Any:
    """Return a dependency that gives the caller alone, for an answer that outlasts the operation."""
    allowed = _allowed(operation)
    ROUTE_OPERATIONS[allowed] = operation
    return Depends(allowed)


def _allowed(operation: Method[..., Any, Any, Any]) -> Callable[..., Any]:
    return require_scopes(*operation.needs.scopes, by_queue=operation.needs.by_queue)


def terms_of(options: Options) -> Terms:
    """Return the operator's terms of users' tasks."""
    handlers = options.handlers()
    return Terms(
        shortest=options.shortest_interval,
        max_enabled=options.max_enabled_tasks,
        handler=options.task_handler,
        handlers=options.task_handlers,
        known=frozenset(handlers) or None,  # a service without a worker in its process does not know its handlers
        queues={name: getattr(each, "queue", "default") for name, each in handlers.items()},
    )


def answer_in_words(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a public value as JSON, its sentences in the language of the request."""
    return answer(translated(value, languages.current()), status, **languages.headers(), **headers)


def answer(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a public value as JSON; a list goes into the envelope of all lists."""
    body = as_list(value) if isinstance(value, tuple) else to_json(value)
    return Response(json.dumps(body, ensure_ascii=False, separators=(",", ":")), status, headers, "application/json")
