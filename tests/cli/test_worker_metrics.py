"""A worker tells Prometheus about itself, at a port of its own."""

import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Command, Process

Start = Callable[..., Process]


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
