"""A listening socket: opened before the process reports its start, so that a wrong address fails at once."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress

from horae.errors import ConfigurationError, InvalidInput

BACKLOG = 2048


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def listen(host: str, port: int, *, or_any: bool = False) -> socket.socket:
    """Return a listening socket; with *or_any* on a free port where the given one is taken."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
    except (OSError, UnicodeError):
        raise InvalidInput("host_not_ours", host=host) from None
    # It names its protocol, as whatever it accepts then does: only where that says TCP does asyncio switch off the
    # delay of small packets, which costs 40 ms for every answer on a kept connection.
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError as problem:
        opened.close()
        if or_any and port:
            return listen(host, 0)
        raise ConfigurationError("port_taken", host=host, port=port, problem=str(problem.strerror)) from None
    opened.setblocking(False)
    return opened


def url_of(listening: socket.socket) -> str:
    """Return the URL under which this machine reaches a socket."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
