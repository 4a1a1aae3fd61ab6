"""``horae view``: filters with a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.views import View

group = typer.Typer(help="Keep filters under a name.", no_args_is_help=True, rich_markup_mode=None)
Id = Annotated[str, typer.Argument(metavar="ID", help="The view, as `horae view list` shows it.")]


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    room: Annotated[str | None, typer.Option("--room", metavar="NAME", help="Only of this room, as jobs.")] = None,
) -> None:
    """List your own views, and those shared with you."""
    with reached(terminal) as here:
        chosen: Any = room
        found, now = here.views.list(room=chosen), here.now()
    headers = ("ID", "ROOM", "NAME", "FILTER", "SHARED", "BY", "CHANGED")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else "No views yet."
    terminal.result(as_list(found), text)


def _row(view: View, now: datetime) -> tuple[str, ...]:
    shared = "yes" if view.shared else "no"
    return (view.id, view.room, view.name, view.filter, shared, view.author, words.relative(view.updated_at, now))


@command(group, "save", by_url=True, examples=("horae view save Timeouts 'error:Timeout ended:>-2h' --shared",))
def save(
    terminal: Terminal,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="The filter, as `horae job list --where` takes it.")],  # noqa: A002  # the argument's name on the command line
    room: Annotated[str, typer.Option("--room", metavar="NAME", help="The room that it filters.")] = "jobs",
    shared: Annotated[bool, typer.Option("--shared", help="Show it to all of the tenant.")] = False,
    reason: Reason = "",
) -> None:
    """Save a filter under a name, in place of your view of that name."""
    with reached(terminal) as here:
        chosen: Any = room
        saved = here.views.save(name, filter, room=chosen, shared=shared, reason=reason)
    terminal.result(to_json(saved), f"{saved.name} is saved as {saved.id}")


@command(group, "share", by_url=True)
def share(
    terminal: Terminal,
    id: Id,  # noqa: A002  # the argument's name on the command line
    private: Annotated[bool, typer.Option("--private", help="Show it to its author alone.")] = False,
    reason: Reason = "",
) -> None:
    """Show one of your views to all of the tenant."""
    with reached(terminal) as here:
        changed = here.views.share(id, shared=not private, reason=reason)
    terminal.result(to_json(changed), f"{changed.name} is {'shared' if changed.shared else 'yours alone'}")


@command(group, "delete", by_url=True)
def delete(terminal: Terminal, id: Id, reason: Reason = "") -> None:  # noqa: A002  # the argument's name on the command line
    """Delete a view of your own."""
    with reached(terminal) as here:
        here.views.delete(id, reason=reason)
    terminal.result({"id": id, "deleted": True}, f"{id} is deleted")
