"""One outgoing call on the wire: a request over a checked connection, and its answer, or in our words why not."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterable, Mapping
from contextlib import aclosing
from typing import cast

import httpcore
import httpx

from horae.core.outgoing.targets import Rules, Target
from horae.errors import AddressRefused, CallFailed
from horae.outgoing.calls import Answer, Limits
from horae.outgoing.transport import CheckedTransport, Resolver, system_resolver
from horae.version import VERSION

KEPT_HEADERS = ("content-encoding", "content-type", "retry-after")
LONGEST_HEADER = 1024
# An error does not say where a name leads: a network that an operator allows may be an inner one.
_ADDRESS = re.compile(r"\s*\('[^)]*\)|\[?(?:\d{1,3}\.){3}\d{1,3}\]?(?::\d+)?|\[?[0-9a-fA-F]*(?::[0-9a-fA-F]*){2,}\]?")


async def post(
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    rules: Rules,
    limits: Limits,
    *,
    resolve: Resolver | None = None,
    dial: httpcore.AsyncNetworkBackend | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Post JSON and read the answer, whatever its status; its total time is the caller's to limit."""
    request = _request(target, body, headers, limits)
    transport = CheckedTransport(rules, resolve=resolve or system_resolver, dial=dial, tls=tls)
    try:
        response = await transport.handle_async_request(request)
        async with aclosing(response):
            kept, cut = await _read(cast("AsyncIterable[bytes]", response.stream), limits.body)
    except httpx.HTTPError as problem:
        raise _failed(target, problem, limits) from None
    chosen = {name: response.headers[name][:LONGEST_HEADER] for name in KEPT_HEADERS if name in response.headers}
    return Answer(response.status_code, chosen, kept, cut)


def _request(target: Target, body: bytes, headers: Mapping[str, str], limits: Limits) -> httpx.Request:
    ours = {
        "accept-encoding": "identity",
        "connection": "close",
        "content-type": "application/json",
        "user-agent": f"horae/{VERSION}",
    }
    timeouts = {"timeout": {"connect": limits.connect}}  # everything else is bounded by the total
    try:
        return httpx.Request("POST", target.url, content=body, headers={**headers, **ours}, extensions=timeouts)
    except (httpx.InvalidURL, UnicodeError):  # such as an xn-- name that stands for nothing
        raise AddressRefused("host_unknown", target=str(target)) from None


async def _read(stream: AsyncIterable[bytes], most: int) -> tuple[bytes, bool]:
    """Return as much as may be kept, and whether there was more; what lies beyond is never fetched."""
    body = bytearray()
    async for part in stream:
        body += part[: most + 1 - len(body)]
        if len(body) > most:
            break
    return bytes(body[:most]), len(body) > most


def _failed(target: Target, problem: httpx.HTTPError, limits: Limits) -> CallFailed:
    """Return the error for a failed call in our words: those of the library may repeat headers."""
    match problem:
        case httpx.ConnectTimeout():
            return CallFailed("connect_too_slow", target=str(target), seconds=limits.connect)
        case httpx.ConnectError():
            text = _ADDRESS.sub("", str(problem))[:200].strip()
            return CallFailed("not_connected", target=str(target), problem=text)
        case httpx.RemoteProtocolError():
            return CallFailed("answer_not_http", target=str(target))
        case httpx.LocalProtocolError():
            return CallFailed("request_not_http", target=str(target))
    return CallFailed("connection_broken", target=str(target))
