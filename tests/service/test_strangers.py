"""Whoever has no valid token costs little: no body is read, a half-sent head ends, and memory stays flat.

Over real sockets, with each of uvicorn's parsers. No test measures how quickly something ends: each waits for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from horae.server.http_server import LONGEST_HEAD, bounded
from horae.server.socket import listen
from tests.support.serving import Served, serving

pytestmark = pytest.mark.slow  # real sockets, real waits and one process

PATIENCE = 60.0
SHORT = timedelta(seconds=1)
PARSERS = {"h11": H11Protocol, "httptools": HttpToolsProtocol}
POST = "POST /scheduler/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(params=PARSERS)
def parser(request: pytest.FixtureRequest) -> type[Any]:
    return PARSERS[request.param]


@pytest.fixture
def served(sqlite_database_url: str, parser: type[Any]) -> Iterator[Served]:
    """A server whose patience with heads is short."""
    with serving(sqlite_database_url, http=bounded(parser, SHORT)) as running:
        yield running


@contextlib.contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    url = httpx.URL(served.url)
    with socket.create_connection((url.host, url.port or 80), timeout=PATIENCE) as line:
        yield line


def to_the_end(line: socket.socket) -> bytes:
    """All that comes until the other side has ended the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := line.recv(65536):
            parts.append(part)
    return b"".join(parts)


def answer_on(line: socket.socket) -> bytes:
    """One whole answer with a body of a known length, on a connection that goes on."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += line.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head.lower())
    assert found is not None, head
    while len(body) < int(found[1]):
        body += line.recv(65536)
    return head


# -- bodies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["none", "wrong"])
def test_a_strangers_body_is_not_waited_for(served: Served, token: str) -> None:
    """It is announced and never sent; the answer does not depend on it."""
    shown = "" if token == "none" else f"Authorization: Bearer horae_{'0' * 12}_{'0' * 72}\r\n"
    with connected(served) as line:
        line.sendall(f"{POST}{shown}Content-Length: 1000000\r\n\r\n".encode())
        result = to_the_end(line)
    assert result.startswith(b"HTTP/1.1 401 ")
    assert b"connection: close" in result.lower()
    assert b'"code":"unauthorized"' in result


def test_a_strangers_body_is_not_looked_at(served: Served) -> None:
    """What would be refused as hostile is refused as a stranger's, and the answer reveals neither size nor form."""
    hostile = b"[" * 100_000
    with connected(served) as line:
        line.sendall(f"{POST}Content-Length: {len(hostile)}\r\n\r\n".encode() + hostile[:60_000])
        assert to_the_end(line).startswith(b"HTTP/1.1 401 ")
    with connected(served) as line:
        line.sendall(f"{POST}Content-Length: {10**12}\r\n\r\n".encode())
        assert to_the_end(line).startswith(b"HTTP/1.1 401 ")


def test_a_body_in_pieces_from_a_stranger_is_not_waited_for(served: Served) -> None:
    with connected(served) as line:
        line.sendall(f"{POST}Transfer-Encoding: chunked\r\n\r\n5\r\n[[[[[\r\n".encode())
        assert to_the_end(line).startswith(b"HTTP/1.1 401 ")


def test_a_body_where_none_is_wanted_is_not_waited_for(served: Served) -> None:
    with connected(served) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert to_the_end(line).startswith(b"HTTP/1.1 200 ")


def test_somebody_known_is_told_that_a_body_is_too_long(served: Served) -> None:
    with connected(served) as line:
        line.sendall(f"{POST}Authorization: Bearer {served.token('alice')}\r\nContent-Length: {10**9}\r\n\r\n".encode())
        assert to_the_end(line).startswith(b"HTTP/1.1 413 ")


def test_a_connection_of_somebody_known_is_kept(served: Served) -> None:
    body = json.dumps({"handler": "work"}).encode()
    head = f"{POST}Authorization: Bearer {served.token('alice')}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connected(served) as line:
        for _ in range(3):
            line.sendall(head + body)
            result = answer_on(line)
            assert result.startswith(b"HTTP/1.1 201 ")
            assert b"connection: close" not in result.lower()


# -- heads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET /hea", ASK[:-2]], ids=["nothing", "half a line", "all but the end"])
def test_a_half_sent_head_ends(served: Served, sent: bytes) -> None:
    with connected(served) as line:
        line.sendall(sent)
        result = to_the_end(line)
    assert result == b"" or result.startswith(b"HTTP/1.1 408 ")


def test_no_further_byte_prolongs_a_head(served: Served) -> None:
    """The time counts from the first byte; whoever drips is not heard for longer."""
    with connected(served) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Drip: ")
        line.settimeout(0.05)
        dripped, result = 0, None
        with contextlib.suppress(OSError):
            while result is None:
                line.sendall(b"x")
                dripped += 1
                with contextlib.suppress(TimeoutError):
                    result = line.recv(1000)
                assert dripped < 20 * PATIENCE
    assert dripped > 1


def test_a_half_sent_head_on_a_kept_connection_ends(served: Served) -> None:
    with connected(served) as line:
        line.sendall(ASK)
        assert answer_on(line).startswith(b"HTTP/1.1 200 ")
        line.sendall(b"GET /hea")
        assert to_the_end(line).startswith(b"HTTP/1.1 408 ")


def test_a_kept_connection_may_rest(served: Served) -> None:
    """Longer than a head may take: there is none to wait for."""
    with connected(served) as line:
        line.sendall(ASK)
        answer_on(line)
        line.settimeout(3 * SHORT.total_seconds())
        with pytest.raises(TimeoutError):
            line.recv(1)
        line.settimeout(PATIENCE)
        line.sendall(ASK)
        assert answer_on(line).startswith(b"HTTP/1.1 200 ")


def test_an_answer_may_take_longer_than_a_head(served: Served) -> None:
    """Also where the next request has been sent ahead, in part or whole."""
    body = json.dumps({"worker_id": "w", "wait": 3 * SHORT.total_seconds()}).encode()
    pull = POST.replace("/jobs", "/jobs/pull") + f"Authorization: Bearer {served.token('alice')}\r\n"
    with connected(served) as line:
        line.sendall(f"{pull}Content-Length: {len(body)}\r\n\r\n".encode() + body + ASK)
        result = b""
        while result.count(b"HTTP/1.1 200 ") < 2:
            more = line.recv(65536)
            assert more, result
            result += more


def test_a_head_that_is_too_long_ends(served: Served) -> None:
    with connected(served) as line, contextlib.suppress(ConnectionError):
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ")
        for _ in range(3 * LONGEST_HEAD // 1024):
            line.sendall(b"x" * 1024)
        assert to_the_end(line).startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


# -- the socket ------------------------------------------------------------------------------------------------------


def test_answers_are_not_held_back_by_the_network(served: Served) -> None:
    """The listening socket names its protocol, so that asyncio switches TCP_NODELAY on for what it accepts."""
    with connected(served) as line:
        line.sendall(ASK)
        answer_on(line)
        (connection,) = served.server.server_state.connections
        there = connection.transport.get_extra_info("socket")
        assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_listening_socket_names_its_protocol(host: str) -> None:
    with contextlib.closing(listen(host, 0)) as opened:
        assert (opened.type, opened.proto) == (socket.SOCK_STREAM, socket.IPPROTO_TCP)


# -- many of them ----------------------------------------------------------------------------------------------------

MANY = 500
MOST_GROWTH = 80 * 1024  # kibibytes; with their bodies in memory it would be a thousand mebibytes


def resident(pid: int) -> int:
    """Kibibytes of memory that a process has now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_five_hundred_strangers_cost_no_memory(sqlite_database_url: str) -> None:
    """Half-sent heads and bodies that nobody asked for, against a server process as it is started."""
    environment = {**os.environ, "HORAE_DATABASE_URL": sqlite_database_url}
    command = [sys.executable, "-m", "horae", "server", "--port", "0", "--json"]
    with contextlib.ExitStack() as ending:
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        ending.callback(server.wait)
        ending.callback(server.kill)
        assert server.stdout is not None
        begun = json.loads(server.stdout.readline())
        for _ in range(50):
            assert httpx.get(f"{begun['url']}/healthz", timeout=PATIENCE).status_code == 200
        before, lines, most = resident(server.pid), [], 0
        for number in range(MANY):
            line = ending.enter_context(socket.create_connection(("127.0.0.1", begun["port"]), timeout=PATIENCE))
            with contextlib.suppress(ConnectionError):  # the server may close while it sends
                if number % 2:
                    line.sendall(f"{POST}Content-Length: {2 * 1024 * 1024}\r\n\r\n".encode() + b"[" * 100_000)
                else:
                    line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 8_000)
            lines.append(line)
            most = max(most, resident(server.pid))
        result = [to_the_end(line)[:12] for line in lines]  # every one of them ends
        most = max(most, resident(server.pid))
        assert httpx.get(f"{begun['url']}/healthz", timeout=PATIENCE).status_code == 200
    assert most - before < MOST_GROWTH
    assert set(result[::2]) == {b"HTTP/1.1 408"}
    assert set(result[1::2]) <= {b"HTTP/1.1 401", b""}
