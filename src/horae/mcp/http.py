"""The streamable HTTP transport: every request needs a token, and an agent's token is not an operator's.

An agent's endpoint refuses tokens with the scope ``admin``: an agent that held one could approve its own requests.
An answer under way is cut within a second when its token is revoked or expires, since streams stay open for hours.
Calls and wrong tokens are counted as the HTTP service counts them, by the same settings.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware

from horae.actions.access.tokens import recognise  # no room authenticates: that comes before a caller is known
from horae.core.access.callers import Caller
from horae.errors import Forbidden, HoraeError, StoreError, TooManyRequests, Unauthorized
from horae.mcp.here import KnownUser
from horae.mcp.refusals import without_commands
from horae.ports.world import World
from horae.service.auth.validity import Watch
from horae.service.guard.limits import Limits, Rates

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

DEFAULT_RATES = Rates()  # no limits
PATH = "/mcp"
LARGEST_BODY = 2 * 1024 * 1024
GRACE = timedelta(seconds=5)  # for what is being answered
STATUS: dict[type[HoraeError], int] = {Unauthorized: 401, Forbidden: 403, TooManyRequests: 429}


class Door:
    """Authenticates every request before it reaches the server."""

    def __init__(self, app: ASGIApp, world: World, admits: Callable[[Caller], None], rates: Rates) -> None:
        self._app, self._world, self._admits = AuthContextMiddleware(app), world, admits
        self._watch = Watch()
        self._limits = Limits(rates, world.clock.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"Only HTTP is served here, not {scope['type']}.")
        try:
            caller = await anyio.to_thread.run_sync(self._caller, scope)
        except HoraeError as problem:
            await refuse(send, problem)
            return
        await self._answer(caller, self._app({**scope, "user": KnownUser(caller)}, receive, send))

    async def _answer(self, caller: Caller, answering: Coroutine[Any, Any, None]) -> None:
        """Answer for as long as the caller's token is valid, then cut the connection."""
        loop, task = asyncio.get_running_loop(), asyncio.create_task(answering)

        def end() -> None:
            with suppress(RuntimeError):  # the loop has ended, and the answer with it
                loop.call_soon_threadsafe(task.cancel)

        try:
            with self._watch.watching(self._world, caller, end):
                await asyncio.wait({task})
        finally:
            task.cancel()
        if not task.cancelled():
            await task

    def _caller(self, scope: Scope) -> Caller:
        address = scope["client"][0] if scope.get("client") else None
        self._limits.count_address(address)
        try:
            caller = self._recognise(scope, address)
        except Unauthorized:
            self._limits.count_wrong_token(address)
            raise
        self._limits.count_caller(caller)
        caller.require_all_queues()  # lanes and their schedules belong to no queue of a worker's
        self._admits(caller)
        return caller

    def _recognise(self, scope: Scope, address: str | None) -> Caller:
        headers = [value for key, value in scope["headers"] if key.lower() == b"authorization"]
        word, _, text = headers[0].decode("latin-1").partition(" ") if len(headers) == 1 else ("", "", "")
        if word.lower() != "bearer" or not text.strip():
            raise Unauthorized("mcp_token_missing")
        return recognise(self._world, text.strip(), address=address)


def for_agents(caller: Caller) -> None:
    if "admin" in caller.scopes or caller.is_person:
        raise Forbidden("admin_token_of_agent")
    caller.require("tasks")


def for_operators(caller: Caller) -> None:
    caller.require("admin")


async def refuse(send: Send, problem: HoraeError) -> None:
    """Send a refusal as the service words it; the body was not read, so the connection ends with the answer."""
    status = next((each for kind, each in STATUS.items() if isinstance(problem, kind)), 503)
    is_away = isinstance(problem, StoreError)
    description = "The store does not answer just now. Try again." if is_away else without_commands(str(problem))
    body = json.dumps({"error": problem.code, "error_description": description}, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))
    if isinstance(problem, TooManyRequests):
        headers.append((b"retry-after", str(math.ceil(problem.retry_after)).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer error="invalid_token"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def application(
    server: MCPServer[None], world: World, host: str, *, is_operator: bool = False, rates: Rates = DEFAULT_RATES
) -> Door:
    """Return the server behind its door, ready to be served."""
    app = server.streamable_http_app(streamable_http_path=PATH, host=host, max_request_body_size=LARGEST_BODY)
    return Door(app, world, for_operators if is_operator else for_agents, rates)
