"""What systemd hears of a worker: a real datagram socket stands where systemd would."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from horae.runtime.systemd import ALIVE, READY, STOPPING, notify, watchdog_rhythm
from tests.cli.conftest import Process


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield heard


def hear(systemd: socket.socket, fact: str) -> list[str]:
    """Everything up to the message that holds the fact."""
    answer: list[str] = []
    while fact not in answer:
        answer += systemd.recv(4096).decode().splitlines()
    return answer


def test_nobody_is_told_where_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert notify(READY) is False
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    assert notify(READY) is False


def test_a_name_in_the_abstract_namespace_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"horae-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        assert notify(READY, "STATUS=well")
        assert heard.recv(4096) == b"READY=1\nSTATUS=well"


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),  # meant for another process
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_signs_of_life_come_twice_within_the_time_that_systemd_waits(
    environment: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    rhythm = watchdog_rhythm()

    assert (None if rhythm is None else rhythm.total_seconds()) == seconds


@pytest.mark.parametrize("command", [("worker", "tasks:app"), ("server", "--port", "0")], ids=["worker", "server"])
def test_a_process_says_when_it_is_ready_alive_and_stopping(
    command: tuple[str, ...],
    project: Path,
    start: Callable[..., Process],
    systemd: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    process = start(*command, "--json")

    hear(systemd, READY)
    hear(systemd, ALIVE)
    hear(systemd, ALIVE)
    process.started.send_signal(signal.SIGTERM)
    hear(systemd, STOPPING)

    assert process.ended().code == 0
