"""``horae watch``: which parts change, as it happens."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached


def register(app: typer.Typer) -> None:
    command(app, "watch", by_url=True)(watch)


def watch(
    terminal: Terminal,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, metavar="N", help="End after N changes.")] = None,
) -> None:
    """Print which parts change, until Ctrl-C.

    One line for each change, at most two a second; with --json one document for each. While it runs the store is looked
    at once a second.
    """
    with reached(terminal) as here:
        for change in islice(here.live.follow(), count):
            terminal.event(to_json(change))
            if not terminal.is_json:
                terminal.out(f"{words.exact(change.at)}  {', '.join(change.parts)}")
