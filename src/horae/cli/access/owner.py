"""``horae owner``: tenants and what is special about each."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from horae.api.access.values import Owner

group = typer.Typer(help="See and set what is special about a tenant.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant; system is the house itself.")]


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 100,
    quiet_hours: Annotated[
        bool, typer.Option("--quiet-hours", help="Only those that have quiet hours, and until when.")
    ] = False,
) -> None:
    """List tenants that have settings, secrets or tasks."""
    if quiet_hours:
        _list_quiet(terminal)
        return
    with reached(terminal) as here:
        found = tuple(islice(here.owners.list(limit=limit), limit))
    headers = ("OWNER", "WEIGHT", "ENABLED TASKS AT MOST", "NETWORKS", "HTTP")
    text = terminal.table(headers, [_row(each) for each in found]) if found else "No owner needs anything special."
    terminal.result(as_list(found), text)


@command(group, "show", by_url=True)
def show(terminal: Terminal, name: Name) -> None:
    """Show the settings of a tenant, or the defaults."""
    with reached(terminal) as here:
        found = here.owners.get(name)
    terminal.result(to_json(found), _text(found))


@command(group, "set", by_url=True, examples=("horae owner set acme --weight 3",))
def set_(
    terminal: Terminal,
    name: Name,
    weight: Annotated[
        int, typer.Option("--weight", metavar="N", help="Its share of fair queues, beside the weights of the others.")
    ],
    reason: Reason = "",
) -> None:
    """Set the weight of a tenant; its other settings stay.

    In a queue with --fair owner a tenant of weight 3 gets three jobs for each one of a tenant of weight 1. It counts
    within seconds.
    """
    with reached(terminal) as here:
        now = here.owners.get(name)
        changed = here.owners.put(
            name,
            allow_networks=now.allow_networks,
            allow_http=now.allow_http,
            ports=now.ports,
            max_enabled_tasks=now.max_enabled_tasks,
            weight=weight,
            reason=reason,
        )
    terminal.result(to_json(changed), f"{name} has weight {changed.weight}")


@command(group, "quiet", by_url=True, examples=("horae owner quiet acme 22:00-07:00 --tz Europe/Berlin",))
def quiet(
    terminal: Terminal,
    name: Name,
    hours: Annotated[str, typer.Argument(metavar="HOURS|none", help="Such as 22:00-07:00; none lifts them.")],
    zone: Annotated[str, typer.Option("--tz", metavar="ZONE", help="The IANA zone of the hours.")] = "UTC",
    reason: Reason = "",
) -> None:
    """Start no job of a tenant in some hours, whatever its queue.

    Running jobs go on. What comes due in these hours starts when they end.
    """
    with reached(terminal) as here:
        if hours == "none":
            here.owners.lift_quiet(name, reason=reason)
            terminal.result({"owner": name, "quiet_hours": None}, f"{name} has no quiet hours")
            return
        changed = here.owners.quiet(name, hours, zone=zone, reason=reason)
    terminal.result(to_json(changed), f"{name} is quiet {changed.quiet_hours} ({zone})")


def _list_quiet(terminal: Terminal) -> None:
    with reached(terminal) as here:
        found, now = here.owners.list_quiet(), here.now()
    rows = [(each.owner, each.quiet_hours, each.quiet_zone, words.both(each.quiet_until, now) or "-") for each in found]
    text = terminal.table(("OWNER", "QUIET HOURS", "ZONE", "QUIET UNTIL"), rows) if rows else "No owner is quiet."
    terminal.result(as_list(found), text)


def _row(owner: Owner) -> tuple[str, ...]:
    most = "default" if owner.max_enabled_tasks is None else str(owner.max_enabled_tasks)
    return (owner.owner, str(owner.weight), most, ", ".join(owner.allow_networks) or "-", str(owner.allow_http).lower())


def _text(owner: Owner) -> str:
    _, weight, most, networks, http = _row(owner)
    return f"owner    {owner.owner}\nweight   {weight}\ntasks    {most}\nnetworks {networks}\nhttp     {http}"
