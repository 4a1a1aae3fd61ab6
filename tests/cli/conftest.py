"""Commands, run in this process or as real ones."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from horae.cli.logs import JsonLines, TextLines
from horae.cli.main import main

APP = """
from horae import Context, Horae, Retry

app = Horae("sqlite:///app.db")


@app.job("add", queue="sums")
def add(left: int, right: int) -> int:
    return left + right


@app.job("stubborn", retry=Retry.fixed(0, attempts=2))
def stubborn(ctx: Context) -> None:
    raise ConnectionError("nobody answers")


@app.job("endless")
async def endless(ctx: Context) -> None:
    ctx.logger.info("endless has begun")
    await ctx.until_cancelled()
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def assert_refused(self, code: int, reason: str, facts: Mapping[str, Any] | None = None) -> None:
        """Assert that a command with ``--json`` was refused with this exit code, reason and at least these facts."""
        error, expected = self.json["error"], dict(facts or {})
        assert (self.code, error.get("reason")) == (code, reason), error
        assert {name: error["facts"].get(name) for name in expected} == expected
        assert "Traceback" not in self.err


Command = Callable[..., Ended]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, no setting from outside, and modules of that folder that no later test finds imported."""
    for name in [name for name in os.environ if name.startswith("HORAE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget_programs(tmp_path)
    yield tmp_path
    forget_programs(tmp_path)


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    """A command may send the log lines of this process to its own stderr, which is closed when its test ends."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in list(root.handlers):
        if isinstance(handler.formatter, JsonLines | TextLines):
            root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def horae(environment: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """``horae("job", "list")`` in this process."""

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(list(arguments))
        answer = capsys.readouterr()
        return Ended(int(code), answer.out, answer.err)

    return run


@pytest.fixture
def project(environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an application in ``tasks.py``, imported anew in each test."""
    (environment / "tasks.py").write_text(APP)
    monkeypatch.syspath_prepend(environment)
    return environment


def forget_programs(folder: Path) -> None:
    """Forget modules that tests have written, those of other folders too: names repeat."""
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder.parent)):
            del sys.modules[name]


class Process:
    """A real ``horae`` that goes on until a signal ends it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.started: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "horae", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def events(self) -> Iterator[dict[str, Any]]:
        assert self.started.stdout is not None
        for line in self.started.stdout:
            yield json.loads(line)

    def until(self, event: str) -> dict[str, Any]:
        """Read events until the one that is waited for."""
        for each in self.events():
            if each["event"] == event:
                return each
        raise AssertionError(f"{event} never came: {self.ended().err}")

    def until_it_says(self, words: str) -> None:
        """Read stderr until something was said."""
        assert self.started.stderr is not None
        for line in self.started.stderr:
            if words in line:
                return
        raise AssertionError(f"{words!r} was never said")

    def ended(self) -> Ended:
        out, err = self.started.communicate(timeout=60)
        return Ended(self.started.returncode, out, err)


@pytest.fixture
def start(environment: Path) -> Iterator[Callable[..., Process]]:
    begun: list[Process] = []

    def run(*arguments: str) -> Process:
        begun.append(Process(environment, *arguments))
        return begun[-1]

    yield run
    for process in begun:
        if process.started.poll() is None:
            process.started.kill()
        process.started.communicate()
