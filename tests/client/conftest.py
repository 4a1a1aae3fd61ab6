"""A server that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Reply = tuple[int, dict[str, str], Any]
BROKEN_OFF: Reply = (0, {}, None)  # the connection ends without an answer


@dataclass
class Script:
    """Answers in order, the last one again and again; and the requests that came."""

    replies: list[Reply]
    seen: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    url: str = ""

    def next(self) -> Reply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def headers(self, name: str) -> list[str | None]:
        """One header of every request so far."""
        return [headers.get(name.lower()) for _, _, headers, _ in self.seen]


Says = Callable[..., Script]


@pytest.fixture
def says() -> Iterator[Says]:
    """``says((503, {}, {...}), (200, {}, {...}))``: a server that answers so."""
    running: list[ThreadingHTTPServer] = []

    def serve(*replies: Reply) -> Script:
        script = Script(list(replies))

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                script.seen.append((self.command, self.path, headers, body))
                status, more, value = script.next()
                if not status:
                    self.close_connection = True
                    return
                content = value.encode() if isinstance(value, str) else json.dumps(value).encode()
                self.send_response(status)
                kind = "application/json" if status < 400 else "application/problem+json"
                for name, result in {"Content-Type": kind, "Content-Length": str(len(content)), **more}.items():
                    self.send_header(name, result)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        script.url = f"http://127.0.0.1:{server.server_port}"
        return script

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept; it does not."""
    slept: list[float] = []

    async def note(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("horae.client.transport.pause", slept.append)
    monkeypatch.setattr("horae.client.transport.pause_async", note)
    return slept
