"""``horae audit``: has anybody touched what was written down?"""

from __future__ import annotations

from typing import Annotated

import typer

from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, command, opened

group = typer.Typer(help="Verify what was written down.", no_args_is_help=True, rich_markup_mode=None)


@command(group, "verify")
def verify(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's chain.")] = None,
) -> None:
    """Recompute the chains of the audit; name what was touched.

    Changed, removed and moved entries are exit code 6. Workers seal entries within half a minute; what is not sealed
    yet is sealed first.
    """
    from horae.actions.audit import seal_audit, verify_audit

    with opened(terminal) as world:
        while seal_audit(world):
            continue
        found = verify_audit(world, owner=owner)
    told = [
        {"owner": each.owner, "entries": each.entries, "head": each.head, "complaints": list(each.complaints)}
        for each in found
    ]
    lines = [f"{each.owner}: {each.entries} entries, head {each.head[:16]}" for each in found]
    lines += [f"{each.owner}: {line}" for each in found for line in each.complaints]
    sound = not any(each.complaints for each in found)
    text = "\n".join(lines) if lines else "No entry has been written yet."
    terminal.result({"sound": sound, "chains": told}, text)
    if not sound:
        raise typer.Exit(Exit.FINDINGS)
