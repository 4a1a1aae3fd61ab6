"""A command imports what it needs and no more: `python -m scripts.startup` measures what that saves."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from horae.cli.main import COMMANDS, GROUPS, command_tree, main
from horae.cli.start import RARELY, SELDOM

HEAVY = {"alembic", "asyncio.events", "httpx", "pydantic"}  # a stand-in for asyncio loads none of its modules
RUN = """
import sys
from horae.cli.start import main
code = main()
print("loaded:", *sys.modules)
sys.exit(code)
"""
# Rooms that a list of jobs does not enter.
ELSEWHERE = (
    "horae.core.attention", "horae.core.schedules", "horae.stores.attention", "horae.stores.schedules",
    "horae.actions.jobs.held_jobs", "horae.core.jobs.filters", "horae.core.jobs.reasons", "horae.core.outgoing",
    "horae.core.statistics", "horae.stores.tables.queues", "horae.core.governance.", "horae.actions.budgets.attempts",
    "horae.actions.jobs.claims", "horae.actions.jobs.endings", "horae.api.jobs.held", "horae.stores.chores",
    "horae.stores.tables.audit", "horae.ports.access", "horae.ports.chores", "horae.ports.claims",
    "horae.ports.schedules", "horae.ports.workers",
)  # fmt: skip


def loaded(program: str, *arguments: str) -> set[str]:
    """Run a program in a new interpreter and return the names of the modules that it imported."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.fixture
def database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    url = f"sqlite:///{tmp_path}/horae.db"
    assert main(["db", "migrate", "--db", url]) == 0
    return url


def test_help_imports_neither_a_database_nor_another_command() -> None:
    found = loaded(RUN, "--help")

    assert not found & (HEAVY | {"sqlalchemy"})
    assert {name for name in found if name.startswith("horae.cli.")} == {
        "horae.cli.failures", "horae.cli.main", "horae.cli.start",
    }  # fmt: skip


def test_listing_jobs_imports_nothing_heavy(database: str) -> None:
    found = loaded(RUN, "job", "list", "--db", database)

    assert "sqlalchemy" in found
    assert not found & HEAVY
    assert not {name for name in found if name.startswith(ELSEWHERE)}
    assert not {
        name for name in found if name in ("horae.app", "horae.runtime.worker.worker", "horae.cli.process.server")
    }
    assert not {
        name for name in found if name.startswith(("sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql"))
    }


@pytest.mark.parametrize(
    "use",
    [
        "import asyncio; ran = asyncio.run(work())",
        "from asyncio import run; ran = run(work())",
        "import asyncio.runners; ran = asyncio.runners.run(work())",
        "import asyncio; asyncio.TimeoutError; import asyncio as again; ran = again.run(work())",
    ],
)
def test_a_command_that_uses_asyncio_gets_all_of_it(use: str) -> None:
    program = (
        "import sys\nfrom horae.cli.start import LateAsyncio\nsys.modules['asyncio'] = LateAsyncio('asyncio')\n"
        f"import sqlalchemy\nasync def work(): return 'ran'\n{use}\n"
        "print('loaded:', ran, sys.modules['asyncio'].__file__)"
    )

    [ran, path] = sorted(loaded(program), key=len)
    assert ran == "ran"
    assert path.endswith("asyncio/__init__.py")


@pytest.mark.parametrize(("command", "threshold"), [("check", RARELY), ("worker", SELDOM)])
def test_garbage_is_collected_rarely_in_commands_that_end_soon_and_seldom_in_processes(
    command: str, threshold: int
) -> None:
    program = (
        "import gc, sys\nfrom horae.cli.start import main\nassert main() == 0\nprint('loaded:', gc.get_threshold()[0])"
    )

    assert loaded(program, command, "--help") == {str(threshold)}


@pytest.mark.parametrize("name", GROUPS)
def test_the_help_of_a_group_lists_every_command_of_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole: Any = typer.main.get_command(command_tree())

    assert main([name, "--help"]) == 0
    printed = capsys.readouterr().out.partition("Commands:")[2]
    assert [line.split()[0] for line in printed.splitlines() if line.startswith("  ") and line[2] != " "] == list(
        whole.commands[name].commands
    )


@pytest.mark.parametrize("typed", [["jb", "list"], ["job", "lst"]])
def test_a_command_that_does_not_exist_is_answered_with_what_was_meant(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed) == 2
    assert f"Did you mean '{'job' if typed[0] == 'jb' else 'list'}'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS | GROUPS)
def test_the_line_in_the_root_help_is_what_the_command_says_of_itself(name: str) -> None:
    root: Any = typer.main.get_command(command_tree(name))

    assert root.commands[name].get_short_help_str(120) == (COMMANDS | GROUPS)[name]
