"""``horae calendar``: named lists of days that schedules leave out, keep to or move away from."""

from __future__ import annotations

from typing import Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

group = typer.Typer(help="Keep calendars of days for schedules.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the calendar.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept in the audit.")]


@command(group, "list", by_url=True)
def list_(terminal: Terminal) -> None:
    """List calendars."""
    with reached(terminal) as here:
        found, now = here.calendars.list(), here.now()
    rows = [
        (each.name, each.title or "-", str(len(each.days)), words.relative(each.updated_at or now, now))
        for each in found
    ]
    text = terminal.table(("NAME", "TITLE", "DAYS", "CHANGED"), rows) if rows else "No calendars yet."
    terminal.result(as_list(found), text)


@command(group, "show", by_url=True)
def show(terminal: Terminal, name: Name) -> None:
    """Show the days of a calendar, and the schedules that use it."""
    with reached(terminal) as here:
        found = here.calendars.get(name)
    users = ", ".join(found.schedules) or "no schedule"
    lines = [*found.days, f"used by {users}, version {found.version}"]
    terminal.result(to_json(found), "\n".join(lines))


@command(
    group,
    "set",
    by_url=True,
    examples=("horae calendar set bank 2030-12-25 01-01 sat sun --title 'Bank'",),
)
def set_(
    terminal: Terminal,
    name: Name,
    days: Annotated[
        list[str],
        typer.Argument(metavar="DAY...", help="2030-12-25, 2030-12-24..2030-12-31, 12-25 for every year, or sat."),
    ],
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="What people call it.")] = None,
    reason: Reason = "",
) -> None:
    """Make a calendar, or replace its days.

    Schedules that use it follow at once.
    """
    with reached(terminal, may_create=True) as here:
        made = here.calendars.set(name, days, title=title, reason=reason)
    count = words.count(len(made.days), "day")
    terminal.result(to_json(made), f"{made.name} has {count}, version {made.version}")


@command(group, "delete", by_url=True)
def delete(terminal: Terminal, name: Name, reason: Reason = "") -> None:
    """Delete a calendar that no schedule uses."""
    with reached(terminal) as here:
        here.calendars.delete(name, reason=reason)
    terminal.result({"name": name, "deleted": True}, f"{name} is deleted")
