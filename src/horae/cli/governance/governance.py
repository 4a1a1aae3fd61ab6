"""``horae governance``: count what agents remember, and plan it by new policies."""

from __future__ import annotations

from typing import Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

group = typer.Typer(
    help="Count what agents remember, and plan it by new policies.", no_args_is_help=True, rich_markup_mode=None
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


@command(group, "status", by_url=True)
def status(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's objects.")] = None,
) -> None:
    """Count objects by kind and state, and say what is due."""
    with reached(terminal) as here:
        seen = here.objects.overview(owner=owner)
    rows = [
        (it.kind, it.status if it.epistemic_state is None else f"{it.status}/{it.epistemic_state}", f"{it.count:,}")
        for it in seen.counts
    ]
    lines = [terminal.table(("KIND", "STATE", "OBJECTS"), rows) if rows else "No objects."]
    if not seen.complete:
        lines.append(f"counted are the newest {seen.looked_at:,}")
    lines.append(f"{seen.due_in_a_day:,} due within a day, {seen.late:,} late, {seen.open_reviews:,} open reviews")
    terminal.result(to_json(seen), "\n".join(lines))
