"""What the targets of the Makefile would do; nothing is installed."""

import re
import subprocess
from pathlib import Path

import pytest

from scripts.dependencies import requirements

ROOT = Path(__file__).parents[2]


def would(*arguments: str) -> str:
    """Return the commands that ``make`` would run on a fresh machine."""
    command = ["make", "--dry-run", "--always-make", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_running_installs_what_runs_and_none_of_the_tools() -> None:
    commands = would("run")

    assert re.findall(r"dependencies\.py (\S*)", commands) == ["client,server"]
    assert "install -c" not in commands
    assert "horae up" in commands


def test_what_runs_is_what_the_extras_of_the_package_ask_for() -> None:
    needed = requirements(["client", "server"])

    assert {re.split(r"[^\w-]", each)[0] for each in needed} >= {"alembic", "fastapi", "httpx", "sqlalchemy", "uvicorn"}
    assert len(needed) == len(set(needed))


@pytest.mark.parametrize("target", ["venv", "test", "lint"])
def test_every_other_target_adds_the_tools(target: str) -> None:
    assert re.findall(r"install .*'\.\[(.*)\]'", would(target))[-1].endswith(",dev")


def test_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert targets is not None
    assert set(targets[1].split()) == set(re.findall(r"^  make ([\w-]+)", listed, re.MULTILINE))
