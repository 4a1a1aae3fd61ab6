"""``horae audit``: verify that the audit was not changed."""

from __future__ import annotations

from typing import Annotated

import typer

from horae.api.values import to_json
from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

group = typer.Typer(help="Verify what was written down.", no_args_is_help=True, rich_markup_mode=None)


@command(group, "verify", by_url=True)
def verify(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's chain.")] = None,
) -> None:
    """Recompute the chains of the audit; name what was touched.

    Changed, removed and moved entries are exit code 6. Workers and servers seal entries in about a minute; what is not
    sealed yet is sealed first.
    """
    with reached(terminal) as here:
        result = here.audit.verify(owner=owner)
    lines = [f"{each.owner}: {each.entries} entries, head {each.head[:16]}" for each in result.chains]
    lines += [f"{each.owner}: {line}" for each in result.chains for line in each.complaints]
    terminal.result(to_json(result), "\n".join(lines) if lines else "No entry has been written yet.")
    if not result.sound:
        raise typer.Exit(Exit.FINDINGS)
