"""Which commands of ours a text tells its reader to type."""

import re

from typer.main import get_command

from horae.cli.main import app

COMMAND = re.compile(r"(?<![\w./-])horae((?: [a-z][a-z-]+)+)")


def commands_in(text: str) -> list[tuple[str, ...]]:
    """``horae db migrate`` as ("db", "migrate"): the words that name a command, without what follows it."""
    found = {_named(tuple(words.split())) for words in COMMAND.findall(text)}
    return sorted(found - {()})


def options_of(*words: str) -> set[str]:
    """Every option that a command takes."""
    command = get_command(app)
    for word in words:
        command = command.commands[word]  # type: ignore[attr-defined]
    return {option for each in command.params for option in (*each.opts, *each.secondary_opts)}


def _named(words: tuple[str, ...]) -> tuple[str, ...]:
    """The longest beginning that leads down the tree of commands."""
    command, taken = get_command(app), 0
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]  # type: ignore[attr-defined]
        taken += 1
    return words[:taken] if taken else words[:2]
