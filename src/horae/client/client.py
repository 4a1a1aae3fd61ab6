"""``horae.Client`` and ``horae.AsyncClient``: the whole service, room by room."""

from __future__ import annotations

from types import TracebackType
from typing import Self

try:
    import httpx
except ModuleNotFoundError as missing:
    from horae.errors import MissingExtra

    raise MissingExtra("client_extra_missing", module=missing.name) from missing

from horae.api.operation import AsyncSender, Sender
from horae.api.rooms import Rooms
from horae.client.transport import AsyncTransport, Endpoint, Patience, SyncTransport
from horae.words.languages import Language


class Client(Rooms[Sender]):
    """A client whose calls block. Use it as a context manager, or call :meth:`close`; threads may share it.

    A call that finds no connection, or is answered with 429 or 503, is repeated up to *retries* times where that can do
    no harm; *timeout* is in seconds, for each try. *language* is that of sentences the service writes, ``"en"`` or
    ``"zh"``: of its errors and of why lines.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = Patience.timeout,
        retries: int = Patience.retries,
        language: Language = "en",
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._transport = SyncTransport(
            Endpoint(url, token, Patience(timeout=timeout, retries=retries), language), transport
        )
        super().__init__(self._transport)

    def close(self) -> None:
        """Close the connections."""
        self._transport.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.endpoint.url!r})"  # without the token


class AsyncClient(Rooms[AsyncSender]):
    """The same for an event loop: every call is awaited, every listing is iterated with ``async for``."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = Patience.timeout,
        retries: int = Patience.retries,
        language: Language = "en",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._transport = AsyncTransport(
            Endpoint(url, token, Patience(timeout=timeout, retries=retries), language), transport
        )
        super().__init__(self._transport)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self._transport.endpoint.url!r})"
