"""``horae governance``: plan what agents remember by new policies, and check that all of it holds."""

from __future__ import annotations

from typing import Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

group = typer.Typer(
    help="Plan what agents remember by new policies, and check it.", no_args_is_help=True, rich_markup_mode=None
)


@command(group, "replan", by_url=True, examples=("horae governance replan --dry-run",))
def replan(
    terminal: Terminal,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would move.")] = False,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's objects.")] = None,
) -> None:
    """Plan objects by the policies that hold now, at once.

    Otherwise each follows a changed policy from its next action on.
    """
    with reached(terminal) as here:
        done = here.policies.replan(dry_run=dry_run, owner=owner)
        now = here.now()
    verb = "would move" if done.dry_run else "moved"
    lines = [f"{words.count(done.looked_at, 'object')} looked at, {done.moved:,} {verb}"]
    for each in done.first[:20]:
        due = "nothing" if each.next_action_at is None else f"{each.next_action} {words.both(each.next_action_at, now)}"
        lines.append(f"  {each.object.kind} {each.object.id}: {due}")
    terminal.result(to_json(done), "\n".join(lines))
