"""A TCP proxy that can fall silent: it goes on reading, so that every kernel on the way acknowledges; nothing passes.

That is what a frozen load balancer, a stopped server or a failed-over pooler looks like to a client: no FIN, no RST,
and keepalive probes are answered. A connection that was silenced stays silent for ever; `let_through` lets new ones
work.
"""

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self

from sqlalchemy import make_url

HOST = "127.0.0.1"
CHUNK = 65536


class Proxy:
    """Forwards connections to one server until it is set to swallow everything."""

    def __init__(self, url: str) -> None:
        self._target = make_url(url)
        self._listening = socket.create_server((HOST, 0), backlog=100)
        self._port = self._listening.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._peers: dict[socket.socket, socket.socket | None] = {}  # None: nobody is behind it any more
        self._swallowing = False
        self._orders: list[str] = []
        self._done = threading.Event()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The database's URL, by way of this proxy."""
        return self._target.set(host=HOST, port=self._port).render_as_string(hide_password=False)

    def swallow(self) -> None:
        """From now on nothing passes, in either direction, on old connections and on new ones."""
        self._order("swallow")

    def let_through(self) -> None:
        """New connections work again; those that were silenced stay silent."""
        self._order("let through")

    def close(self) -> None:
        self._order("close")
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pass_by(self, source: socket.socket, received: bytes) -> None:
        """Look at what comes from one end before it goes on to the other; for those who count."""

    # -- the proxy's own thread ------------------------------------------------------------------------------------

    def _order(self, order: str) -> None:
        """Hand an order to the thread and wait until it holds."""
        self._done.clear()
        self._orders.append(order)
        self._wake.send(b"!")
        if not self._done.wait(60):
            raise AssertionError("the proxy does not obey")

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    if self._obey():
                        return
                elif key.fileobj is self._listening:
                    self._accept()
                else:
                    self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _obey(self) -> bool:
        self._woken.recv(CHUNK)
        ends = False
        for order in self._orders[:]:
            if order == "close":
                ends = True
            else:
                self._swallowing = order == "swallow"
            if order == "swallow":
                self._peers = dict.fromkeys(self._peers)
            self._orders.remove(order)
        if ends:
            for each in [*self._peers, self._listening, self._wake, self._woken]:
                each.close()
            self._selector.close()
        self._done.set()
        return ends

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        self._peers[client] = None
        self._selector.register(client, selectors.EVENT_READ)
        if not self._swallowing:
            server = socket.create_connection((self._target.host, self._target.port))
            self._peers[client], self._peers[server] = server, client
            self._selector.register(server, selectors.EVENT_READ)

    def _pass_on(self, source: socket.socket) -> None:
        if source not in self._peers:
            return  # its other end has just closed
        try:
            received = source.recv(CHUNK)
        except OSError:
            received = b""
        peer = self._peers[source]
        self.pass_by(source, received)
        if received and peer is not None:
            with contextlib.suppress(OSError):
                peer.sendall(received)
        if not received:
            for end in filter(None, (source, peer)):
                del self._peers[end]
                self._selector.unregister(end)
                end.close()


class Deaf:
    """An address that drops every attempt to connect: its queue is full and nobody ever accepts."""

    def __init__(self, url: str) -> None:
        self._target = make_url(url)
        self._listening = socket.create_server((HOST, 0), backlog=0)
        self._waiting = [self._knock() for _ in range(8)]

    def _knock(self) -> socket.socket:
        knocking = socket.socket()
        knocking.setblocking(False)
        knocking.connect_ex(self._listening.getsockname())
        return knocking

    @property
    def url(self) -> str:
        port = self._listening.getsockname()[1]
        return self._target.set(host=HOST, port=port).render_as_string(hide_password=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in [*self._waiting, self._listening]:
            each.close()
