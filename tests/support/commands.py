"""Which commands of ours a text tells its reader to type."""

import re
from functools import cache
from typing import Any

from typer.main import get_command

from horae.cli.main import command_tree

COMMAND = re.compile(r"(?<![\w./-])horae((?: [a-z][a-z-]+)+)")


@cache
def _root() -> Any:
    return get_command(command_tree())


def commands_in(text: str) -> list[tuple[str, ...]]:
    """``horae db migrate`` as ("db", "migrate"): the words that name a command, without what follows it."""
    found = {_named(tuple(words.split())) for words in COMMAND.findall(text)}
    return sorted(found - {()})


def options_of(*words: str) -> set[str]:
    """Return every option that a command takes."""
    command = _root()
    for word in words:
        command = command.commands[word]
    return {option for each in command.params for option in (*each.opts, *each.secondary_opts)}


def _named(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the longest beginning that leads down the tree of commands."""
    command, taken = _root(), 0
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
        taken += 1
    return words[:taken] if taken else words[:2]
