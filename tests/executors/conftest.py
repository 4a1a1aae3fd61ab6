"""The application of ``tests.executors.heavy``, and workers for it that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from horae import Horae
from tests.executors import heavy
from tests.support.templates import put_tables

Program = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def heavy_app(tmp_path: Path) -> Iterator[Horae]:
    """The application on a database of its own; its executor starts processes on this machine."""
    heavy.app.database = put_tables(tmp_path / "horae.db")
    vars(heavy.app).pop("engine", None)
    heavy.chosen.__init__()  # type: ignore[misc]
    heavy.chosen.real = heavy.choose("detached", str(tmp_path / "calls"))
    yield heavy.app
    heavy.app.close()
    vars(heavy.app).pop("engine", None)


@pytest.fixture
def worker_program(heavy_app: Horae, tmp_path: Path) -> Iterator[Program]:
    """Start a worker in a process of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(executor: str = "detached", at: str = "", dies_after: str = "") -> subprocess.Popen[bytes]:
        given = {
            "database": str(heavy_app.database), "executor": executor, "at": at or str(tmp_path / "calls"),
            "dies_after": dies_after,
        }  # fmt: skip
        started.append(subprocess.Popen([sys.executable, "-m", "tests.executors.heavy", json.dumps(given)]))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
        process.wait(30)
