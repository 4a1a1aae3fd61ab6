"""The service behind an application that has no database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from horae.api.operation import Call
from horae.api.senders.local import service_only_error
from horae.api.senders.local_async import AT_ONCE
from horae.client.client import Client
from horae.client.transport import Endpoint, Patience, SyncTransport
from horae.clock import pause_async

T = TypeVar("T")
SHORTEST, LONGEST = 2.0, 10.0  # seconds for an answer to a worker's own calls


class Service:
    """A patient client for the application, and brisk ones for its workers, on one URL."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self.token = url, token
        self.sender = SyncTransport(Endpoint(url, token, Patience()))
        self._brisk: list[Client] = []

    def worker_client(self, lease: timedelta) -> Client:
        """Make a client whose calls end well within a lease and are not repeated: the worker's loops do that."""
        limit = min(max(lease.total_seconds() / 6, SHORTEST), LONGEST)
        self._brisk.append(made := Client(self.url, self.token, timeout=limit, retries=0))
        return made

    def close(self) -> None:
        """Close the connections."""
        self.sender.http.close()
        for client in self._brisk:
            client.close()


class InThreads:
    """Send for an event loop, in threads: an application may have several loops, a connection pool only one."""

    is_async = True

    def __init__(self, sender: SyncTransport) -> None:
        self._sender = sender

    async def send(self, call: Call[T]) -> T:
        return await asyncio.to_thread(self._sender.send, call)

    def monotonic(self) -> float:
        return self._sender.monotonic()

    async def pause(self, seconds: float) -> None:
        await pause_async(seconds)

    def follow(self, call: Call[T]) -> AsyncIterator[T]:
        raise service_only_error(call)

    async def download(self, call: Call[T]) -> AsyncIterator[T]:
        values = self._sender.download(call)
        try:
            while batch := await asyncio.to_thread(lambda: tuple(islice(values, AT_ONCE))):
                for value in batch:
                    yield value
        finally:
            await asyncio.to_thread(values.close)
