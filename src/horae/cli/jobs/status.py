"""``horae status``: is all well, what needs you, and what comes next."""

from __future__ import annotations

from typing import Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

LEVELS = {"problem": "!", "warning": "-", "question": "?"}


def register(app: typer.Typer) -> None:
    command(app, "status", by_url=True)(status)


def status(
    terminal: Terminal,
    fires: Annotated[int, typer.Option("--fires", min=1, max=100, metavar="N", help="How many fires to list.")] = 5,
) -> None:
    """Say whether all is well, what needs you, and what fires next.

    Counts go up to 10,000. `horae doctor` looks deeper, at the machine and the database.
    """
    with reached(terminal) as here:
        seen, coming, now = here.overview.get(), here.schedules.next_fires(limit=fires), here.now()
    lines = [terminal.bold(seen.health.in_words(terminal.language)), ""]
    lines += [f"{LEVELS[need.level]} {need.in_words(terminal.language)}" for need in seen.needs]
    lines += [""] if seen.needs else []
    lines.append(f"{seen.running:,} running, {seen.due:,} due, {words.count(seen.workers, 'worker')}")
    if coming:
        lines += ["", terminal.faint("next")]
        lines += [f"  {words.relative(each.at, now):<12} {words.exact(each.at)}  {each.key}" for each in coming]
    terminal.result({"overview": to_json(seen), "next_fires": to_json(coming)}, "\n".join(lines))
