"""The guard before every request: pure ASGI, around the application and its errors.

It gives the request an id, checks its origin and the limits, reads a body only for a caller whose token is valid and
only up to the allowed size, and adds the security headers and one line in the access log. The log has the template of
the route and not the path, so that no secret in a URL gets into it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horae.errors import HoraeError, TooManyRequests
from horae.service import languages, problems
from horae.service.auth import sessions as browsers
from horae.service.guard import bodies, cross_origin
from horae.service.problems import method_not_allowed, problem, refusal
from horae.service.state import CALLER, Service, address_of, authenticate, bearer_of, find_recognised
from horae.service.threads import on_thread

log = logging.getLogger("horae.access")
SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=+-]{0,127}")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BODILESS = frozenset({204, 304})
# Open without a token, and without a body: one that is sent is ignored.
WITHOUT_BODY = frozenset({"/healthz", "/readyz", "/version", "/openapi.json", "/docs"})
BODY = "horae.body"  # where the body is left that was read
OF_JOBS = ("/jobs", "/scheduler/jobs")  # below these nothing changes a token
SLOWEST_BODY = 60.0  # seconds
LARGE_BODY = 64 * 1024  # from here on it is looked at in a thread
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}  # an answer that sets one of these itself keeps its own
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def untimed() -> float:
    """Return no time: a service without a clock times nothing."""
    return 0.0


class Enough(OSError):
    """A HEAD request has its headers; the stream can stop."""


class Guard:
    """ASGI middleware that checks every request."""

    def __init__(self, app: ASGIApp, service: Service, methods: Mapping[str, Sequence[str]]) -> None:
        self.app = app
        self.service = service
        self.methods = methods  # of paths that the router would take for an id with other methods
        self.options = service.options
        self.limits = service.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        languages.choose(headers.get("accept-language", ""))
        given = headers.get("x-request-id", "")
        request_id = given if SANE_ID.fullmatch(given) else self.options.names()
        scope.setdefault("state", {})["request_id"] = request_id
        out = ResponseWriter(scope, send, request_id, self.options.monotonic or untimed)
        if scope["method"] not in SAFE and not path_of(scope).startswith(OF_JOBS):
            out.changed = self.service.recognised.forget
        out.origins = self.options.cors_origins
        out.origin = cross_origin.allowed_origin(out.origins, path_of(scope), headers)
        if scope["method"] == "HEAD":
            scope["method"] = "GET"  # the same answer without its body
        try:
            body: bytes | JSONResponse = b""
            refusal = self._check_head(scope, headers, is_allowed=out.origin is not None)
            if announces_body(headers):
                out.closes = True  # unless it is read to its end
                if refusal is None and browsers.is_console(path_of(scope)):
                    most = await self._most_of_browser(scope, headers)
                    body = await self._body(headers, receive, out, most) if most else b""
                elif refusal is None and path_of(scope) not in WITHOUT_BODY:
                    refusal = await self._authenticate(scope, headers)
                    most = self.options.max_body_bytes
                    body = await self._body(headers, receive, out, most) if refusal is None else b""
            if isinstance(body, JSONResponse):
                refusal, body = body, b""
            scope[BODY] = body
            answer = self.app if refusal is None else refusal
            await answer(scope, replay_body(body, receive), out.send)
        except (Enough, ClientDisconnect):
            pass
        except Exception as error:
            await self._answer_failure(scope, receive, out, error)
        finally:
            out.write_line()

    async def _answer_failure(self, scope: Scope, receive: Receive, out: ResponseWriter, error: Exception) -> None:
        answer = problems.answer_failure(Request(scope), error)
        if out.status:  # too late for another answer: the connection must not look well
            raise error
        await answer(scope, receive, out.send)

    # -- before the body -----------------------------------------------------------------------------------------

    def _check_head(self, scope: Scope, headers: Headers, *, is_allowed: bool) -> Response | None:
        """Return an answer by the head of the request, a refusal most often; None where it may go on.

        *is_allowed* says that the request comes from a page of an origin that may call.
        """
        try:
            self.limits.count_address(None if scope.get("client") is None else scope["client"][0])
        except TooManyRequests as error:
            return problems.answer_error(Request(scope), error)
        if self.options.hosts and host_of(headers.get("host", "")) not in self.options.hosts:
            return refusal(421, "wrong_host", "host_unknown_here")
        if scope["method"] not in SAFE and not is_allowed and self._is_cross_site(headers):
            return refusal(403, "cross_site", "page_of_other_site")
        if b"%00" in scope.get("query_string", b"") or "\0" in scope["path"]:
            return refusal(422, "invalid_input", "nul_in_address")
        if headers.get("content-encoding", "identity").lower() != "identity":
            return refusal(415, "unsupported_media", "body_encoded")
        asked_first = cross_origin.preflight(scope["method"], headers) if is_allowed else None
        if asked_first is not None:
            return asked_first
        methods = self.methods.get(path_of(scope))
        if methods is not None and scope["method"] not in methods:
            return method_not_allowed(methods)
        return None

    def _is_cross_site(self, headers: Headers) -> bool:
        """Return whether a browser sends this for a page of another site; other programs send neither header."""
        fetched = headers.get("sec-fetch-site")
        if fetched is not None:
            return fetched not in ("same-origin", "none")
        origin = headers.get("origin")
        ours = {headers.get("host", ""), urlsplit(self.options.public_url).netloc}
        return origin is not None and origin.partition("://")[2] not in ours - {""}

    def _too_large(self, most: int) -> JSONResponse:
        return refusal(413, "too_large", "body_too_large", {"Connection": "close"}, most=most)

    # -- the body ------------------------------------------------------------------------------------------------

    async def _authenticate(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Authenticate the caller by the head alone; return a refusal where its token is not valid."""
        credentials = (self.service, headers.get("authorization"), address_of(scope))
        needs_store = not self.options.open_to_all and bearer_of(credentials[1]) is not None
        try:
            caller = find_recognised(self.service, credentials[1])
            if caller is None:
                caller = await on_thread(authenticate, *credentials) if needs_store else authenticate(*credentials)
            scope[CALLER] = caller
        except HoraeError as error:
            return problems.answer_error(Request(scope), error)
        return None

    async def _most_of_browser(self, scope: Scope, headers: Headers) -> int:
        """Return how many bytes are read of what a browser sends: only a form for the log-in before it is known."""
        cookie = browsers.session_cookie(headers)
        try:
            found = await on_thread(browsers.authenticate_browser, self.service, cookie)
            scope[CALLER], scope[browsers.SESSION] = found
            return self.options.max_body_bytes
        except HoraeError as error:  # the console answers with a page
            scope[browsers.REFUSED] = error
            return browsers.SMALL_BODY if path_of(scope) == browsers.LOGIN else 0

    async def _body(self, headers: Headers, receive: Receive, out: ResponseWriter, most: int) -> bytes | JSONResponse:
        """Return the whole body, or the refusal of it."""
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length[:20]) > most:
            return self._too_large(most)
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                body = await self._read(receive, most)
        except TimeoutError:
            return refusal(408, "too_slow", "body_too_slow", {"Connection": "close"})
        if body is None:
            return self._too_large(most)
        out.closes = False
        if not body or "json" not in headers.get("content-type", "json").lower():
            return body
        large = len(body) > LARGE_BODY
        fault = await on_thread(bodies.fault_of, body) if large else bodies.fault_of(body)
        return body if fault is None else problem(422, "invalid_input", fault)

    async def _read(self, receive: Receive, most: int) -> bytes | None:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


class Line(dict[str, Any]):
    """A line of the access log: JSON where it is written, and nothing where no handler wants the text."""

    def __str__(self) -> str:
        return json.dumps(self)


class ResponseWriter:
    """Writes the response: headers, the count of bytes, and the line in the log."""

    def __init__(self, scope: Scope, send: Send, request_id: str, monotonic: Callable[[], float]) -> None:
        self.scope = scope
        self.status = 0
        self.closes = False  # whether the connection ends with the answer, because a body on it was not read
        self.changed: Callable[[], None] | None = None  # called before an answer says that something was changed
        self.origins: Collection[str] = ()  # those that may call
        self.origin: str | None = None  # the one that does
        self._method = scope["method"]
        self._send = send
        self._request_id = request_id
        self._monotonic = monotonic
        self._began = monotonic()
        self._bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.changed is not None:
                self.changed()
            message["headers"] = raw = list(message.get("headers", ()))
            headers = MutableHeaders(raw=raw)
            if self.origins:
                cross_origin.mark(headers, self.origins, self.origin)
            there = {name for name, _ in raw}
            raw += [each for each in RAW_HEADERS if each[0] not in there]
            raw.append((b"x-request-id", self._request_id.encode("latin-1")))
            if self.closes:
                headers["Connection"] = "close"
            if self.status in BODILESS:
                del headers["Content-Type"]
        elif message["type"] == "http.response.body":
            if self._method == "HEAD":
                streams = message.get("more_body", False)
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                if streams:
                    raise Enough
                return
            self._bytes += len(message.get("body", b""))
        await self._send(message)

    def write_line(self) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        caller = self.scope.get(CALLER) or self.scope["state"].get("caller")
        facts = {
            "method": self._method if self._method.isalpha() else "?",
            "route": getattr(self.scope.get("route"), "path", None),
            "status": self.status or 499,  # 499: the caller went away
            "duration_ms": round((self._monotonic() - self._began) * 1000, 1),
            "bytes": self._bytes,
            "request_id": self._request_id,
            "owner": None if caller is None else caller.owner,
            "actor": None if caller is None else caller.actor,
        }
        log.info(Line(facts), extra={"facts": facts})


def path_of(scope: Scope) -> str:
    """Return the path below the one where the service is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def announces_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive that first gives the body that was read already."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def host_of(header: str) -> str:
    """Return the name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
