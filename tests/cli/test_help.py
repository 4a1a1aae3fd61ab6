"""Every ``--help`` is true and can be read: on a small terminal, with examples that are understood."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from horae.cli.main import command_tree
from tests.cli.conftest import Command

ROOT: Any = typer.main.get_command(command_tree())


def tree(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from tree(below, (*path, name))


COMMANDS = dict(tree())
EXAMPLES = [
    line.strip()
    for command in COMMANDS.values()
    if command.epilog and "Examples:" in command.epilog
    for line in command.epilog.splitlines()[2:]
]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_eighty_columns_and_cuts_nothing_off(
    horae: Command, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    ended = horae(*path, "--help")

    assert ended.code == 0
    usage, *lines = ended.out.splitlines()
    assert "[[" not in usage
    assert len(usage) <= 80
    assert not [line for line in lines if len(line) > 80 or line.endswith("...")]


@pytest.mark.parametrize(
    "path", [path for path, command in COMMANDS.items() if not hasattr(command, "commands")], ids=" ".join
)
def test_every_option_says_what_it_does_and_what_it_takes(path: tuple[str, ...]) -> None:
    for each in COMMANDS[path].params:
        assert each.hidden or each.help, each.name
        assert each.hidden or each.metavar or each.is_flag, each.name


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_understood(example: str) -> None:
    example = example.removeprefix("HORAE_TOKEN=… ")
    first, *words = shlex.split(example)
    command, path = ROOT, ["horae"]
    while hasattr(command, "commands"):
        path.append(words.pop(0))
        command = command.commands[path[-1]]

    assert first == "horae"
    assert example.startswith(" ".join(path))
    command.make_context(path[-1], words)
