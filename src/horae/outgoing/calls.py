"""One outgoing call: bounded in time, in bytes read and in bytes kept. Its errors hold no secrets.

An error names the target by scheme, host and port only, because paths and queries often hold keys.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from horae.core.access.masking import hide_secrets
from horae.core.outgoing.targets import Rules, Target
from horae.errors import AddressRefused, CallFailed, MissingExtra

try:
    import httpcore
    import httpx
except ModuleNotFoundError as missing:
    raise MissingExtra("calls_extra_missing", module=missing.name) from missing

from horae.outgoing.transport import CheckedTransport, Resolver, system_resolver
from horae.version import VERSION

KEPT_HEADERS = ("content-encoding", "content-type", "retry-after")
LONGEST_HEADER = 1024
# An error does not say where a name leads: a network that an operator allows may be an inner one.
_ADDRESS = re.compile(r"\s*\('[^)]*\)|\[?(?:\d{1,3}\.){3}\d{1,3}\]?(?::\d+)?|\[?[0-9a-fA-F]*(?::[0-9a-fA-F]*){2,}\]?")
CUT = " … (cut)"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one call may take: seconds, and bytes of the answer's body that are read."""

    connect: float = 5.0
    total: float = 30.0
    body: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, a few headers, and the beginning of the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool  # there was more

    @property
    def is_encoded(self) -> bool:
        """Whether it is compressed, although plain bytes were asked for; it is not unpacked, so a bomb stays small."""
        return self.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")

    @property
    def text(self) -> str:
        """The body to be kept: storable text, with a mark where it was cut."""
        return self.without(())

    def without(self, secrets: Iterable[str]) -> str:
        """Return the text without these secrets; one that the cut has left a part of is hidden too."""
        if self.is_encoded:
            return f"({len(self.body):,} compressed bytes were not unpacked)"
        text = self.body.decode(errors="replace").replace("\x00", "\ufffd")
        return hide_secrets(text, secrets) + (CUT if self.cut else "")


class Calls:
    """Makes outgoing calls; what it needs of the network can be replaced in tests.

    *headers* is asked at each call, in its task, for what a tracer wants to send along, such as ``traceparent``.
    """

    def __init__(
        self,
        *,
        resolve: Resolver = system_resolver,
        dial: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._resolve, self._dial, self._tls, self._headers = resolve, dial, tls, headers

    async def post(
        self, target: Target, body: bytes, headers: Mapping[str, str], rules: Rules, limits: Limits | None = None
    ) -> Answer:
        """Post JSON and read the answer, whatever its status; ``CallFailed`` when there is none in time."""
        limits = limits or Limits()
        rules.check(target)
        request = _request(target, body, {**headers, **self._headers()}, limits)
        try:
            async with asyncio.timeout(limits.total):
                return await self._answer(request, rules, limits)
        except TimeoutError:
            raise CallFailed("answer_too_slow", target=str(target), seconds=limits.total) from None
        except httpx.HTTPError as problem:
            raise _failed(target, problem, limits) from None

    async def _answer(self, request: httpx.Request, rules: Rules, limits: Limits) -> Answer:
        transport = CheckedTransport(rules, resolve=self._resolve, dial=self._dial, tls=self._tls)
        response = await transport.handle_async_request(request)
        async with aclosing(response):
            body, cut = await _read(cast("AsyncIterable[bytes]", response.stream), limits.body)
        headers = {name: response.headers[name][:LONGEST_HEADER] for name in KEPT_HEADERS if name in response.headers}
        return Answer(response.status_code, headers, body, cut)


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
