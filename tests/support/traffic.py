"""Count the statements and round trips that a client costs its database, by reading what passes on the wire.

A statement that bypasses every layer of ours is counted all the same. PostgreSQL: a simple query or an Execute is a
statement; a simple query or a Sync is a round trip, because the client waits for the answer to it. MariaDB: a command
is a round trip, and a statement if it is a query.
"""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.proxy import Proxy

NO_STARTUP = {80877103, 80877104}  # asks for SSL or GSSAPI; the startup message is still to come
QUERY = 3  # MariaDB's COM_QUERY
HINT = b"pg_notify"


@dataclass
class Talk:
    """What one connection has said so far."""

    rest: bytes = b""
    begun: bool = False
    statements: int = 0
    trips: int = 0
    hints: bool = False  # it carries wake-ups, which come from a thread of their own whenever it suits them


def read_postgres(talk: Talk) -> None:
    while len(talk.rest) >= 8 and not talk.begun:
        length, code = int.from_bytes(talk.rest[:4]), int.from_bytes(talk.rest[4:8])
        talk.begun = code not in NO_STARTUP
        talk.rest = talk.rest[length:]
    while len(talk.rest) >= 5 and talk.begun and len(talk.rest) > (length := int.from_bytes(talk.rest[1:5])):
        kind, message = talk.rest[:1], talk.rest[5 : length + 1]
        talk.rest = talk.rest[length + 1 :]
        talk.statements += kind in (b"Q", b"E")
        talk.trips += kind in (b"Q", b"S")
        talk.hints |= kind == b"P" and HINT in message


def read_mysql(talk: Talk) -> None:
    while len(talk.rest) >= 5 and len(talk.rest) >= 4 + (length := int.from_bytes(talk.rest[:3], "little")):
        place, command = talk.rest[3], talk.rest[4]
        talk.rest = talk.rest[4 + length :]
        talk.trips += place == 0
        talk.statements += place == 0 and command == QUERY


READERS: dict[str, Callable[[Talk], None]] = {"postgresql": read_postgres, "mysql": read_mysql}


@dataclass
class Count:
    """Statements and round trips since the counting began."""

    statements: int
    trips: int


@dataclass
class Traffic:
    """All connections to one server that go by way of this proxy."""

    url: str
    talks: dict[socket.socket, Talk] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.proxy = _Listening(self.url, self.talks)

    def count(self) -> Count:
        result = [talk for talk in list(self.talks.values()) if not talk.hints]
        return Count(sum(talk.statements for talk in result), sum(talk.trips for talk in result))

    def wait_for_hints(self) -> None:
        """Wait until the connection that carries wake-ups is known as such."""
        if not self.proxy.hinted.wait(20):
            raise AssertionError("nobody has sent a wake-up")


class _Listening(Proxy):
    def __init__(self, url: str, talks: dict[socket.socket, Talk]) -> None:
        self._talks = talks
        self.hinted = threading.Event()
        super().__init__(url)
        self._read = READERS[self._target.get_backend_name().replace("mariadb", "mysql")]

    def pass_by(self, source: socket.socket, received: bytes) -> None:
        if source.getsockname()[1] == self._port:  # from a client; a socket to the server has a port of its own
            talk = self._talks.setdefault(source, Talk())
            talk.rest += received
            self._read(talk)
            if talk.hints:
                self.hinted.set()
