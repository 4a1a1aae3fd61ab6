"""Help is instant because nothing heavy is imported for it."""

import json
import subprocess
import sys

import pytest

HEAVY = {"alembic", "asyncio", "concurrent.futures", "pydantic", "rich", "sqlalchemy"}
OURS = {"horae.actions", "horae.app", "horae.runtime", "horae.stores"}
PROBE = """
import contextlib, io, json, sys
from horae.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    code = main({arguments!r})
print(json.dumps([int(code), sorted(sys.modules)]))
"""


@pytest.mark.parametrize(
    ("arguments", "typer_s_own"),
    [
        (["--help"], set()),
        (["--version"], set()),
        (["job", "--help"], {"pydantic"}),  # Typer builds a TypeAdapter for each option of a subcommand
        (["job", "enqueue", "--help"], {"pydantic"}),
        (["worker", "--help"], {"pydantic"}),
    ],
)
def test_help_imports_neither_database_nor_event_loop(arguments: list[str], typer_s_own: set[str]) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROBE.format(arguments=arguments)], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(answer.stdout)

    assert code == 0
    assert (HEAVY | OURS) & set(modules) <= typer_s_own


def test_the_installed_command_says_its_version() -> None:
    answer = subprocess.run([sys.executable, "-m", "horae", "--version"], capture_output=True, text=True, check=True)

    assert answer.stdout.startswith("horae ")
    assert answer.stderr == ""
