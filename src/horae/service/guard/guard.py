"""What stands before every request: pure ASGI, around the application and its errors.

It gives the request an id, looks at where it comes from, holds it to the limits, reads a body only for somebody whose
token is valid and no further than allowed, and lets nothing out without the security headers and one line in the
access log. The log knows the route's template and not the path: no secret or foreign text of a URL gets into it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from horae.errors import HoraeError, TooManyRequests
from horae.service import problems
from horae.service.guard import bodies
from horae.service.problems import method_not_allowed, problem
from horae.service.state import CALLER, Service, address_of, authenticate, bearer_of

log = logging.getLogger("horae.access")
SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/=+-]{0,127}")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BODILESS = frozenset({204, 304})
# Open to everybody, and no body is wanted there: whoever sends one is answered as if it were not there.
WITHOUT_BODY = frozenset({"/healthz", "/readyz", "/version", "/openapi.json", "/docs"})
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


def untimed() -> float:
    """No clock: nothing is timed."""
    return 0.0


class Enough(OSError):
    """A HEAD has seen the headers; whatever streams on may stop."""


class Guard:
    def __init__(self, app: ASGIApp, service: Service, methods: Mapping[str, Sequence[str]]) -> None:
        self.app = app
        self.service = service
        self.methods = methods  # of addresses that the router would take for an id with other methods
        self.options = service.options
        self.limits = service.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if SANE_ID.fullmatch(given) else self.options.names()
        scope.setdefault("state", {})["request_id"] = request_id
        out = Answering(scope, send, request_id, self.options.monotonic or untimed)
        if scope["method"] == "HEAD":
            scope["method"] = "GET"  # the same answer without its body
        try:
            body: bytes | JSONResponse = b""
            refusal = self._refusal(scope, headers)
            if announces_body(headers):
                out.closes = True  # unless it is read to its end
                if refusal is None and path_of(scope) not in WITHOUT_BODY:
                    refusal = await self._stranger(scope, headers)
                    body = await self._body(headers, receive, out) if refusal is None else b""
            if isinstance(body, JSONResponse):
                refusal, body = body, b""
            answer = self.app if refusal is None else refusal
            await answer(scope, replayed(body, receive), out.send)
        except (Enough, ClientDisconnect):
            pass
        except Exception as error:
            await self._broken(scope, receive, out, error)
        finally:
            out.write_down()

    async def _broken(self, scope: Scope, receive: Receive, out: Answering, error: Exception) -> None:
        answer = problems.broken(Request(scope), error)
        if out.status:  # too late for another answer: the connection must not look well
            raise error
        await answer(scope, receive, out.send)

    # -- before the body -----------------------------------------------------------------------------------------

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Why the request goes no further, as far as its head tells."""
        try:
            self.limits.come_from(None if scope.get("client") is None else scope["client"][0])
        except TooManyRequests as error:
            return problems.response(Request(scope), error)
        if self.options.hosts and host_of(headers.get("host", "")) not in self.options.hosts:
            return problem(421, "wrong_host", "This service is not known under that name. Use the URL it printed.")
        if scope["method"] not in SAFE and self._is_from_elsewhere(headers):
            return problem(403, "cross_site", "A page of another site may not change anything here.")
        if b"%00" in scope.get("query_string", b"") or "\0" in scope["path"]:
            return problem(422, "invalid_input", "The address contains a NUL character. Remove it.")
        if headers.get("content-encoding", "identity").lower() != "identity":
            return problem(415, "unsupported_media", "Send the body as it is, without Content-Encoding.")
        methods = self.methods.get(path_of(scope))
        if methods is not None and scope["method"] not in methods:
            return method_not_allowed(methods)
        return None

    def _is_from_elsewhere(self, headers: Headers) -> bool:
        """Whether a browser sends this for a page that is not ours; other programs send neither header."""
        fetched = headers.get("sec-fetch-site")
        if fetched is not None:
            return fetched not in ("same-origin", "none")
        origin = headers.get("origin")
        ours = {headers.get("host", ""), urlsplit(self.options.public_url).netloc}
        return origin is not None and origin.partition("://")[2] not in ours - {""}

    def _too_large(self) -> JSONResponse:
        most = self.options.max_body_bytes
        return problem(
            413,
            "too_large",
            f"The body is longer than {most:,} bytes. Store the data elsewhere and send a reference to it.",
            {"Connection": "close"},
        )

    # -- the body ------------------------------------------------------------------------------------------------

    async def _stranger(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Recognise the sender by the head alone; a refusal where its token is not valid."""
        credentials = (self.service, headers.get("authorization"), address_of(scope))
        needs_store = not self.options.open_to_all and bearer_of(credentials[1]) is not None
        try:
            scope[CALLER] = (
                await run_in_threadpool(authenticate, *credentials) if needs_store else authenticate(*credentials)
            )
        except HoraeError as error:
            return problems.response(Request(scope), error)
        return None

    async def _body(self, headers: Headers, receive: Receive, out: Answering) -> bytes | JSONResponse:
        """All of it, or why not."""
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length[:20]) > self.options.max_body_bytes:
            return self._too_large()
        try:
            async with asyncio.timeout(SLOWEST_BODY):
                body = await self._read(receive)
        except TimeoutError:
            return problem(408, "too_slow", "The body did not arrive in time.", {"Connection": "close"})
        if body is None:
            return self._too_large()
        out.closes = False
        if not body or "json" not in headers.get("content-type", "json").lower():
            return body
        large = len(body) > LARGE_BODY
        fault = await run_in_threadpool(bodies.fault_of, body) if large else bodies.fault_of(body)
        return body if fault is None else problem(422, "invalid_input", fault)

    async def _read(self, receive: Receive) -> bytes | None:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.options.max_body_bytes:
                return None
            if not message.get("more_body", False):
                return b"".join(parts)


class Answering:
    """The way out: headers, the count of bytes, and the line in the log."""

    def __init__(self, scope: Scope, send: Send, request_id: str, monotonic: Callable[[], float]) -> None:
        self.scope = scope
        self.status = 0
        self.closes = False  # whether the connection ends with the answer, because a body on it was not read
        self._method = scope["method"]
        self._send = send
        self._request_id = request_id
        self._monotonic = monotonic
        self._began = monotonic()
        self._bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers["X-Request-Id"] = self._request_id
            if self.closes:
                headers["Connection"] = "close"
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
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

    def write_down(self) -> None:
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
        log.info(json.dumps(facts), extra={"facts": facts})


def path_of(scope: Scope) -> str:
    """The path below wherever the service is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def announces_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def replayed(body: bytes, receive: Receive) -> Receive:
    """A receive that first gives the body that was read already."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()
