"""uvicorn as every process of Horae runs it: quiet, over a socket that listens already, and stopped by its owner.

A request whose head does not arrive ends its connection: uvicorn itself waits for ever for the rest of one, and one of
its two parsers takes heads of any length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    import socket

T = TypeVar("T")
HEAD_TIMEOUT = timedelta(seconds=10)
LONGEST_HEAD = 64 * 1024  # bytes of request line and headers together
REFUSALS = {
    408: b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
}


class BoundedHead:
    """Mixed into a protocol of uvicorn's: the head of each request has a time limit and a size.

    The time counts from the connection, or from the first byte after an answer, and no further byte prolongs it. All
    that is asked of the protocol is that ``cycle`` is another object for each request whose head is complete.
    """

    head_seconds = HEAD_TIMEOUT.total_seconds()
    cycle: Any
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    _timer: asyncio.TimerHandle | None = None
    _size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]  # the protocol is mixed in
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)  # type: ignore[misc]  # the protocol is mixed in

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        is_body = before is not None and before.more_body
        super().data_received(data)  # type: ignore[misc]  # the protocol is mixed in
        if self.transport.is_closing() or self.cycle is not before:
            self._stop_timer()
        elif not is_body:
            self._start_timer()
            self._size += len(data)
            if self._size > LONGEST_HEAD and not self._is_answering():
                self._refuse(431)
        elif before.response_complete:  # the rest of a body that is not read any more
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._time_is_up, self.cycle)

    def _stop_timer(self) -> None:
        self._size = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self, cycle: object) -> None:
        self._timer = None
        if self.cycle is not cycle:  # the next request arrived with the end of the last one
            self._size = 0
        elif self._is_answering():  # pipelined requests: what follows is read after the answer
            self._start_timer()
        else:
            self._refuse(408)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int) -> None:
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(REFUSALS[status])
            self.transport.close()


def bounded(protocol: type[Any] = AutoHTTPProtocol, head_timeout: timedelta = HEAD_TIMEOUT) -> type[asyncio.Protocol]:
    """Return a protocol of uvicorn's, with either parser, that limits the heads of requests."""
    return type(f"Bounded{protocol.__name__}", (BoundedHead, protocol), {"head_seconds": head_timeout.total_seconds()})


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a server on uvloop, where it is installed, else on asyncio's own loop."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # on Windows, or without the extra `server`
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


class HttpServer(uvicorn.Server):
    """Serve one application; signals are left to the caller."""

    def __init__(
        self,
        app: Callable[..., Any],
        listening: socket.socket,
        *,
        grace: timedelta,
        proxies: tuple[str, ...] = (),
        http: type[asyncio.Protocol] | None = None,
        **further: Any,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=http or bounded(),
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=max(1, round(grace.total_seconds())),
            h11_max_incomplete_event_size=LONGEST_HEAD,
            **further,
        )
        super().__init__(config)
        self._listening = listening

    async def run_until_stopped(self) -> None:
        await self.serve([self._listening])

    def stop(self) -> None:
        """Accept nothing more, finish what is being answered, up to the grace."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
