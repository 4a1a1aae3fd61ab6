"""Doors that are asked often, answered without FastAPI's way to them.

FastAPI matches a path against the routes one by one, solves each dependency and validates each header, which for a
small request costs more than its work. Here the endpoint is found by its path and called with what it declares: the
body as its model, a header, the request and the caller's rooms. Only a request that fits at first sight is served. Any
other one, with parameters, of another media type or with a body that does not fit, goes on to the same endpoint over
FastAPI, which words the refusal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import BackgroundTasks, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from horae.api.operation import Needs
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.errors import HoraeError
from horae.service import problems
from horae.service.guard.guard import BODY, path_of
from horae.service.rooms import ROUTE_OPERATIONS, rooms_of
from horae.service.state import CALLER

DIRECT = frozenset({"enqueue", "enqueue_batch", "claim", "settle", "renew", "peek"})  # ids of operations
MEDIA = "application/json"
LONGEST_HEADER = 255
COMPRESSED_FROM = 1024  # bytes of an answer, where its reader takes it compressed
COMPRESSION: Any = {"minimum_size": COMPRESSED_FROM, "compresslevel": 5}


@dataclass(frozen=True, slots=True)
class Door:
    """One endpoint and what it declares."""

    route: APIRoute
    call: Callable[..., Any]
    needs: Needs
    body: str
    read_body: Callable[[Any], Any]
    headers: tuple[tuple[str, str], ...]  # parameters and the headers that they are
    request: str | None
    tasks: str | None
    rooms: str

    def read(self, headers: Headers, body: bytes) -> dict[str, Any] | None:
        """Return the arguments that a request gives; None where it does not fit at first sight."""
        if headers.get("content-type") != MEDIA:
            return None
        given = {name: headers.get(alias) for name, alias in self.headers}
        if any(value is not None and len(value) > LONGEST_HEADER for value in given.values()):
            return None
        try:
            return given | {self.body: self.read_body(json.loads(body))}
        except (ValueError, ValidationError, RecursionError):
            return None

    async def answer(self, request: Request, caller: Caller, given: dict[str, Any]) -> Response:
        self.needs.check(caller)
        request.state.caller = caller
        given[self.rooms] = rooms_of(request, caller)
        if self.request is not None:
            given[self.request] = request
        if self.tasks is None:
            made: Response = await self.call(**given)
            return made
        tasks = given[self.tasks] = BackgroundTasks()
        made = await self.call(**given)
        made.background = tasks if tasks.tasks else None
        return made


def door_of(route: APIRoute) -> Door:
    """Return an endpoint as a door."""
    declared = route.dependant
    [body], [rooms] = declared.body_params, declared.dependencies
    assert declared.call is not None
    assert rooms.call is not None
    assert rooms.name is not None
    model: Any = body.field_info.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(model)
    return Door(
        route,
        declared.call,
        ROUTE_OPERATIONS[rooms.call].needs,
        body.name,
        adapter.validator.validate_python,
        tuple((each.name, each.alias) for each in declared.header_params),
        declared.request_param_name,
        declared.background_tasks_param_name,
        rooms.name,
    )


class Direct:
    """ASGI middleware behind the guard, which has recognised the caller and read the body."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        self.app = app
        found = [each for each in routes if isinstance(each, APIRoute) and each.operation_id in DIRECT]
        self.doors = {route.path: door_of(route) for route in found}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        door = self.doors.get(path_of(scope)) if scope["type"] == "http" and scope["method"] == "POST" else None
        if door is None or CALLER not in scope or scope["query_string"]:
            await self.app(scope, receive, send)
            return
        given = door.read(Headers(scope=scope), scope[BODY])
        if given is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = door.route
        request = Request(scope, receive)
        try:
            answer = await door.answer(request, scope[CALLER], given)
        except HoraeError as error:
            answer = problems.answer_error(request, error)
        is_small = len(answer.body) < COMPRESSED_FROM
        await (answer if is_small else GZipMiddleware(answer, **COMPRESSION))(scope, receive, send)
