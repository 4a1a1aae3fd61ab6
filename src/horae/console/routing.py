"""Declare pages and acts, each with the operation of a room that it stands on.

A page is read with GET, an act is a form's POST. The operation decides who may come in, as it does for a route of the
API: its scopes, ``read`` for reading, and whether a token limited to queues is served. An act also needs the token of a
form of this console (CSRF). There is no other way to declare a route, so none can forget one of these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from types import SimpleNamespace
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from horae.api.operation import Method
from horae.console import rendering
from horae.console.visitor import Visit, read_form, recognise, speak
from horae.core.dataclass import dataclass
from horae.errors import HoraeError
from horae.service.auth.sessions import PREFIX
from horae.service.problems import status_of

Operation = Method[..., Any, Any, Any]
Endpoint = Callable[..., Awaitable[Response]]


@dataclass(frozen=True)
class Door:
    """A page or an act of the console."""

    method: Literal["GET", "POST"]
    path: str
    operation: Operation | None  # None: open to everybody, or to everybody who is logged in
    endpoint: Endpoint
    is_public: bool = False  # also for those who are not logged in

    def admit(self, visit: Visit) -> None:
        """Refuse a caller without the scopes of the operation."""
        if self.operation is None:
            return
        self.operation.needs.check(visit.known, reads=self.method == "GET")


@dataclass
class Doors:
    """The pages and acts of one module."""

    doors: list[Door] = field(default_factory=list)

    def page(
        self, path: str, operation: Operation | None = None, *, public: bool = False
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare a page at a path below the console; the function gets the visit and the parts of the path."""
        return self._declare("GET", path, operation, public)

    def act(self, path: str, operation: Operation | None, *, public: bool = False) -> Callable[[Endpoint], Endpoint]:
        """Declare what a form does; the function calls the operation and leads on with ``visit.redirect``."""
        return self._declare("POST", path, operation, public)

    def _declare(
        self, method: Literal["GET", "POST"], path: str, operation: Operation | None, public: bool
    ) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.doors.append(Door(method, path, operation, endpoint, public))
            return endpoint

        return declare


def routes_of(doors: Sequence[Door]) -> list[Route]:
    """Return the routes of the application that answers for the console."""
    return [Route(each.path, _handler(each), methods=[each.method]) for each in doors]


def _handler(door: Door) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        request.scope["route"] = SimpleNamespace(path=f"{PREFIX}{door.path}")  # for the log and the metrics
        visit = Visit(request, None, None)
        speak(visit)
        try:
            visit = await recognise(request)
            if visit.caller is None and not door.is_public:
                return to_login(visit, door)
            door_admits(door, visit)
            if door.method == "POST":
                await read_form(visit)
                visit.check_csrf()
            return visit.finish(await door.endpoint(visit, **request.path_params))
        except HoraeError as error:
            request.state.problem = error.code  # for the metrics
            return rendering.render_problem(visit, error, status_of(error))

    return handle


def door_admits(door: Door, visit: Visit) -> None:
    if not door.is_public:
        door.admit(visit)


def to_login(visit: Visit, door: Door) -> Response:
    """Lead a browser that is not logged in to the login, and from there back to the page that it wanted."""
    if visit.is_partial:  # the script leads the whole page there
        return Response(status_code=401, headers={"HX-Redirect": visit.url("/login")})
    here = visit.request.url.path
    query = visit.request.url.query
    wanted = f"{here}?{query}" if query else here
    is_home = here.rstrip("/") == visit.root
    after = wanted if door.method == "GET" and not is_home else None
    return RedirectResponse(visit.url("/login", next=after), 303)
