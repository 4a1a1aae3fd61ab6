"""A tiny orchestrator, for the demo and the tests: it answers what Horae's ``dispatch`` posts.

    python examples/orchestrator/orchestrator.py --port 9000
    ORCHESTRATOR_URL=http://127.0.0.1:9000 horae up

It echoes what it is asked. To see what becomes of a bad answer, ``--fail`` answers every question with one:

    empty        200 and an empty object
    malformed    200 and something that is not JSON
    slow         nothing, until the caller gives up
    500          an error

A text that begins with ``fail`` or ``empty`` is answered so even without the flag. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import logging
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST_BYTES = 1024 * 1024
FAILURES = ("empty", "malformed", "slow", "500")
PATIENCE = 300.0  # seconds after which even a slow answer is dropped
log = logging.getLogger("orchestrator")


def execute(question: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Decide as a real orchestrator would: who answers, and what."""
    text = question.get("text")
    if not isinstance(text, str) or not text:
        return 422, {"error": "text is missing"}
    if text.startswith("fail"):
        return 500, {"error": "told to fail"}
    if text.startswith("empty"):
        return 200, {}
    agent = question.get("default_agent", "attendance")
    said = f"{agent} heard: {text}"
    return 200, {
        "items": [{"agent": agent, "text": text}],
        "results": [{"agent": agent, "output": said}],
        "output": said,
    }


class Orchestrator(BaseHTTPRequestHandler):
    """One request; what was asked is kept in ``server.asked`` for whoever wants to look."""

    server_version = "orchestrator/1"
    server: Server

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if self.path != "/dispatch/execute":
            return self.answer(404, {"error": "no such path"})
        if not length.isdigit() or int(length) > MOST_BYTES:
            return self.answer(413, {"error": "send a content-length of at most 1 MiB"})
        try:
            question = json.loads(self.rfile.read(int(length)))
        except ValueError:
            return self.answer(400, {"error": "not JSON"})
        if not isinstance(question, dict):
            return self.answer(422, {"error": "not an object"})
        self.server.asked.append((question, self.headers.get("x-trace-id")))
        log.info("asked %s by trace %s", json.dumps(question, ensure_ascii=False), self.headers.get("x-trace-id"))
        return self.fail(self.server.fails) if self.server.fails else self.answer(*execute(question))

    def fail(self, how: str) -> None:
        if how == "slow":
            self.server.ended.wait(PATIENCE)
        elif how == "malformed":
            self.send(200, b"<html>certainly not JSON")
        else:
            self.answer(*((200, {}) if how == "empty" else (500, {"error": "told to fail"})))

    def answer(self, status: int, content: dict[str, Any]) -> None:
        self.send(status, json.dumps(content, ensure_ascii=False).encode())

    def send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the standard library gave it
        log.info(format, *args)


class Server(ThreadingHTTPServer):
    """Listen on this machine only, unless another host is given; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, host: str = "127.0.0.1", port: int = 9000, fails: str | None = None) -> None:
        super().__init__((host, port), Orchestrator)
        self.fails = fails
        self.ended = threading.Event()
        self.asked: deque[tuple[dict[str, Any], str | None]] = deque(maxlen=1000)

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}"

    def server_close(self) -> None:
        self.ended.set()
        super().server_close()


def main() -> None:
    options = argparse.ArgumentParser(description="A tiny orchestrator for demonstrations.")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=9000, help="0 takes a free one")
    options.add_argument("--fail", choices=FAILURES, help="answer every question badly")
    given = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with Server(given.host, given.port, given.fail) as server:
        log.info("listening on %s/dispatch/execute", server.url)
        server.serve_forever()


if __name__ == "__main__":
    main()
