"""An httpx transport that checks where it connects at the moment it connects.

A name is resolved once, every answer must pass, and the connection goes to a checked address, with the name still in
the Host header and in the TLS handshake. So a name that answers differently the second time gains nothing. There are
no redirects, no proxies, no cookies and nothing from the environment here, by construction.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Protocol

import httpcore
import httpx

from horae.core.outgoing.addresses import Address
from horae.core.outgoing.targets import Rules, Target, target_of
from horae.errors import AddressRefused

log = logging.getLogger("horae.outgoing")
RESOLVING_THREADS = 8
MOST_ANSWERS = 16  # of a resolver; a name with more addresses is not tried further


class Resolver(Protocol):
    """Finds the addresses of a name."""

    async def __call__(self, host: str, port: int) -> Sequence[str]: ...


@cache
def _resolving() -> ThreadPoolExecutor:
    """Threads of its own: a name server that never answers must not hold up what else runs in threads here."""
    return ThreadPoolExecutor(RESOLVING_THREADS, thread_name_prefix="horae-resolve")


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolve a name as the host is configured: its files, its name servers."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    answers = await asyncio.get_running_loop().run_in_executor(_resolving(), ask)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


@cache
def default_tls() -> ssl.SSLContext:
    """Made once: reading the certificates of all authorities takes longer than most calls."""
    return httpx.create_ssl_context(trust_env=False)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to one target and nowhere else."""

    def __init__(self, target: Target, rules: Rules, resolve: Resolver, dial: httpcore.AsyncNetworkBackend) -> None:
        self._target, self._rules, self._resolve, self._dial = target, rules, resolve, dial

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if (host.lower(), port) != (self._target.host_text, self._target.port):
            raise AddressRefused("target_changed", target=str(self._target))
        try:
            async with asyncio.timeout(timeout):
                return await self._connect(await self._addresses())
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"no connection within {timeout} s") from None

    async def _addresses(self) -> list[Address]:
        """Return every address of the target, all of them checked: one bad answer spoils the name."""
        host = self._target.host
        if isinstance(host, Address):
            self._rules.check_address(host)
            return [host]
        try:
            answers = await self._resolve(host, self._target.port)
        except (OSError, UnicodeError):  # no such name, or one that cannot be asked for
            answers = ()
        if not answers:
            raise httpcore.ConnectError("the name has no address")
        return [self._check_answer(answer) for answer in answers][:MOST_ANSWERS]

    def _check_answer(self, answer: str) -> Address:
        """Return an address that the name leads to; refuse an inner one, which only the operator's log names."""
        try:
            address = Address.read(answer)
            self._rules.check_address(address)
        except AddressRefused as problem:
            log.warning("%s resolves to %s, which is not called: %s", self._target, answer, problem)
            raise AddressRefused("name_not_public", target=str(self._target)) from None
        return address

    async def _connect(self, addresses: list[Address]) -> httpcore.AsyncNetworkStream:
        for address in addresses[:-1]:
            try:
                return await self._dial.connect_tcp(str(address), self._target.port)
            except httpcore.ConnectError:
                continue
        return await self._dial.connect_tcp(str(addresses[-1]), self._target.port)


class CheckedTransport(httpx.AsyncBaseTransport):
    """One connection for each request, to a target that keeps the rules; for any httpx client, or by itself.

    A client of your own should be made with ``trust_env=False``: httpx would read proxies from the environment.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        resolve: Resolver = system_resolver,
        dial: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules, self._resolve, self._tls = rules, resolve, tls
        self._dial = dial or httpcore.AnyIOBackend()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = target_of(str(request.url))
        self._rules.check(target)
        pool = httpcore.AsyncConnectionPool(
            ssl_context=self._tls or default_tls(),
            max_connections=1,
            max_keepalive_connections=0,
            network_backend=CheckedBackend(target, self._rules, self._resolve, self._dial),
        )
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        asked = httpcore.Request(
            request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        try:
            with _as_httpx():
                answer = await pool.handle_async_request(asked)
        except BaseException:
            await pool.aclose()
            raise
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer, pool))


class _Body(httpx.AsyncByteStream):
    """The bytes of an answer; closing it closes the connection, read or not."""

    def __init__(self, answer: httpcore.Response, pool: httpcore.AsyncConnectionPool) -> None:
        self._answer, self._pool = answer, pool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        with _as_httpx():
            await self._answer.aclose()
            await self._pool.aclose()


@contextmanager
def _as_httpx() -> Iterator[None]:
    """httpcore's errors under the names that users of httpx know."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as problem:
        kind = getattr(httpx, type(problem).__name__, httpx.TransportError)
        raise kind(str(problem)) from None
