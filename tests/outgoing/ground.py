"""Servers on loopback that misbehave on demand, a resolver with given answers, a connection that is only recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

import httpcore

from horae.core.outgoing.addresses import allow_list
from horae.core.outgoing.targets import Rules, Target, target_of

CANARY = "CANARY-5f3a"
LOOPBACK = ("127.0.0.0/8",)

Respond = Callable[["Received", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Received:
    """A request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookServer:
    """A real HTTP server that keeps what it received."""

    port: int
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def rules(self) -> Rules:
        """What a tenant may reach whose operator allowed this server, and nothing else of this machine."""
        return Rules(frozenset({"http", "https"}), frozenset({self.port}), allow_list(LOOPBACK))

    def target(self, host: str = "127.0.0.1", scheme: str = "http") -> Target:
        return target_of(f"{scheme}://{host}:{self.port}/hook")


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Received(head[0], headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def serving(respond: Respond, tls: SSLContext | None = None) -> AsyncIterator[HookServer]:
    """Answer every request with *respond* until the block ends."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read(reader)
            server.received.append(request)
            await respond(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    server = HookServer(listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()


def answering(status: int = 200, body: bytes = b"{}", **headers: str) -> Respond:
    """Serve the same answer to every request."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines += [f"content-length: {len(body)}", "connection: close"]
        writer.write(f"HTTP/1.1 {status} Said\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return respond


async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
    """Send one GiB, as fast as it is taken."""
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {2**30}\r\n\r\n".encode())
    block = b"x" * 65536
    for _ in range(2**30 // len(block)):
        writer.write(block)
        await writer.drain()


async def _pace() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


async def dripping(request: Received, writer: asyncio.StreamWriter) -> None:
    """Send a byte at a time, each soon enough to keep any per-read limit from striking."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write(b"x")
        await writer.drain()
        await _pace()


async def dripping_headers(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.transport.is_closing():
        writer.write(b"x-drip: 1\r\n")
        await writer.drain()
        await _pace()


async def huge_headers(request: Received, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(1000):
        writer.write(b"x-much: " + b"y" * 4000 + b"\r\n")
        await writer.drain()
    writer.write(b"\r\n")


class Names:
    """A resolver that answers one thing after another for each name, the last for ever; and counts questions."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(said) for name, said in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._answers:
            raise OSError("no such name")
        said = self._answers[host]
        return said.pop(0) if len(said) > 1 else said[0]


class WatchedLine(httpcore.AsyncNetworkBackend):
    """Connects nowhere and remembers where it was asked to."""

    def __init__(self) -> None:
        self.dialled: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.dialled.append(host)
        raise httpcore.ConnectError("nobody there")
