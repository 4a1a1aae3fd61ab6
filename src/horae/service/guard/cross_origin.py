"""Pages of other origins that may call the API (CORS): exactly those that the operator names, never with cookies.

The console is left out, because there a cookie counts; only its assets may be loaded from elsewhere, among them the
JavaScript client.
"""

from __future__ import annotations

from collections.abc import Collection

from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders

from horae.service.auth import sessions as browsers

METHODS = "GET, POST, PUT, PATCH, DELETE"
TAKEN = "Authorization, Content-Type, Accept-Language, Idempotency-Key, If-Match, If-None-Match, X-Request-Id"
SHOWN = "ETag, Location, Retry-After, X-Request-Id"  # headers of answers that a script may read
REMEMBERED = "600"  # seconds that a browser need not ask again
ASSETS = f"{browsers.PREFIX}/assets/"


def allowed_origin(origins: Collection[str], path: str, headers: Headers) -> str | None:
    """Return the origin of a request if a page of it may call this path; None where that is not so."""
    origin = headers.get("origin")
    if origin is None or origin not in origins:
        return None
    return None if browsers.is_console(path) and not path.startswith(ASSETS) else origin


def preflight(method: str, headers: Headers) -> Response | None:
    """Return the answer to a browser that asks before it calls; None for any other request."""
    if method != "OPTIONS" or "access-control-request-method" not in headers:
        return None
    allowed = {
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": TAKEN,
        "Access-Control-Max-Age": REMEMBERED,
    }
    return Response(status_code=204, headers=allowed)


def mark(headers: MutableHeaders, origins: Collection[str], origin: str | None) -> None:
    """Let a page of the origin read an answer; without one nothing is allowed, and caches know why."""
    if origins:
        headers.add_vary_header("Origin")
    if origin is not None:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Expose-Headers"] = SHOWN
        headers["Cross-Origin-Resource-Policy"] = "cross-origin"
