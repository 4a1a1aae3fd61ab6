"""A worker tells Prometheus about itself, at a port of its own."""

import signal
import socket
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from horae.server.metrics import serve
from tests.cli.conftest import Command, Process

Start = Callable[..., Process]
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_worker_tells_its_figures_on_loopback(project: Path, horae: Command, start: Start) -> None:
    horae("job", "enqueue", "endless", "--app", "tasks:app", "--json")
    port = free_port()
    worker = start("worker", "tasks:app", "--grace", "100ms", "--metrics-port", str(port))
    worker.until_it_says("endless has begun")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    worker.started.send_signal(signal.SIGTERM)
    assert worker.ended().code == 0
    assert 'horae_start_delay_seconds_count{queue="default"} 1.0' in text
    assert "python_info" not in text, "the global registry is the application's"


def test_a_port_that_is_taken_is_said_plainly(project: Path, horae: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = horae("worker", "tasks:app", "--until-empty", "--metrics-port", str(port))
    assert result.code != 0
    assert f"Metrics cannot be served at 127.0.0.1:{port}" in result.err
    assert "Traceback" not in result.err


@pytest.mark.slow  # heads end after ten seconds
def test_who_sends_half_a_head_is_not_waited_for() -> None:
    port, before = free_port(), threading.active_count()
    close = serve(lambda: (), host="127.0.0.1", port=port)
    try:
        lines = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(20)]
        for line in lines:
            line.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            assert answer.status == 200  # they keep nobody else waiting,
        assert threading.active_count() < before + len(lines)  # have no thread each,
        for line in lines:
            assert line.recv(1000).startswith(b"HTTP/1.1 408 ")  # and are ended
            line.close()
    finally:
        close()
    assert "horae-metrics" not in {thread.name for thread in threading.enumerate()}
