"""The rooms of a caller, as a dependency: each endpoint is a line over one operation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import Depends, Request
from fastapi.responses import Response

from horae.actions.consistency import moment
from horae.api.admin import SCHEDULER
from horae.api.here import Here
from horae.api.operation import AsyncSender, Method, Sender
from horae.api.rooms import Rooms
from horae.api.senders.local import Local
from horae.api.senders.local_async import LocalAsync
from horae.api.translations import translated
from horae.api.values import as_list, to_json
from horae.core.access.callers import Caller
from horae.core.governance.objects import GOVERNANCE
from horae.core.scheduled_tasks.task import Terms
from horae.service import languages
from horae.service.options import Options
from horae.service.state import require_scopes, service_of, world_of
from horae.service.threads import on_thread

T = TypeVar("T")
CallerRooms = Rooms[AsyncSender]
ROUTE_OPERATIONS: dict[Callable[..., object], Method[..., Any, Any, Any]] = {}  # the operation behind a dependency


def rooms_for(operation: Method[..., Any, Any, Any]) -> Any:
    """Return a dependency that gives the caller's rooms, and refuses a caller without the scopes of the operation."""
    allowed = _allowed(operation)

    async def rooms(request: Request, caller: Caller = Depends(allowed)) -> CallerRooms:
        return rooms_of(request, caller)

    ROUTE_OPERATIONS[rooms] = operation
    return Depends(rooms)


def rooms_of(request: Request, caller: Caller) -> CallerRooms:
    """Return the rooms of a caller, whose operations run in a thread."""
    here = here_for(request, caller)
    return Rooms(LocalAsync(lambda: here, on_thread))


def here_for(request: Request, caller: Caller) -> Here:
    """Return the world and the terms with which operations of a request run."""
    service = service_of(request)
    options = service.options
    return Here(
        world_of(request), caller, options.max_unfinished_jobs, lambda: terms_of(options), lambda: options.sealer,
        doctor=options.doctor, settings=options.settings, queue=SCHEDULER, room_left=service.room_left,
    )  # fmt: skip


async def read_together(request: Request, caller: Caller, work: Callable[[Rooms[Sender]], T]) -> T:
    """Run several reading operations in one thread and one consistent transaction: a page shows one moment."""
    here = here_for(request, caller)

    def read() -> T:
        with moment(here.world):
            return work(Rooms(Local(lambda: here)))

    return await on_thread(read)


async def act_together(request: Request, caller: Caller, work: Callable[[Rooms[Sender]], T]) -> T:
    """Run operations that change something, one after the other in one thread; each is its own transaction.

    This is a person's door, the console: what is proposed here goes where the application's own objects go.
    """
    here = replace(here_for(request, caller), queue=GOVERNANCE)
    return await on_thread(lambda: work(Rooms(Local(lambda: here))))


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
