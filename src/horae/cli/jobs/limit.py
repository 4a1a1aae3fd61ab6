"""``horae limit``: how many jobs run at once over all, in a group or in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from horae.api.queues import RunningLimit

group = typer.Typer(help="Limit how many jobs run at once.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="global, group:NAME or queue:NAME.")]
Most = Annotated[str, typer.Argument(metavar="N|none", help="How many jobs; none lifts the limit.")]
ORIGINS = {"api": "set by hand", "file": "jobs.conf", "code": "code"}


@command(group, "list", by_url=True)
def list_(terminal: Terminal) -> None:
    """List all limits, who set each, and how many jobs run under it."""
    with reached(terminal) as here:
        found = here.limits.list()
    headers = ("LIMIT", "AT MOST", "RUNNING", "ORIGIN", "INSTEAD OF")
    text = terminal.table(headers, [_row(limit) for limit in found]) if found else "No limit yet."
    terminal.result(as_list(found), text)


def _row(limit: RunningLimit) -> tuple[str, ...]:
    decisive = limit.decisive
    others = [_with_origin(each.max_running, each.source, each.app) for each in limit.sources if each is not decisive]
    origin = "-" if decisive is None else _origin(decisive.source, decisive.app)
    return (limit.name, str(limit.max_running or "none"), str(limit.running), origin, ", ".join(others) or "-")


def _with_origin(max_running: int | None, source: str, app: str | None) -> str:
    return f"{max_running or 'none'} ({_origin(source, app)})"


def _origin(source: str, app: str | None) -> str:
    return ORIGINS[source] + (f" of {app}" if app else "")


@command(group, "set", by_url=True, examples=("horae limit set global 20", "horae limit set group:etl 3"))
def set_(terminal: Terminal, name: Name, max_running: Most, reason: Reason = "") -> None:
    """Let at most N jobs run at once.

    It holds over all workers, and over what jobs.conf and code say, until it is reset.
    """
    most = max_running_from(max_running)
    with reached(terminal) as here:
        changed = here.limits.set(name, most, reason=reason)
    text = "has no limit" if most is None else f"runs at most {words.count(most, 'job')} at once"
    terminal.result(to_json(changed), f"{name} {text}")


@command(group, "reset", by_url=True)
def reset(terminal: Terminal, name: Name, reason: Reason = "") -> None:
    """Forget what was set by hand: jobs.conf and code decide again."""
    with reached(terminal) as here:
        changed = here.limits.reset(name, reason=reason)
    decisive = changed.decisive
    text = "has no limit"
    if decisive is not None:
        text = f"runs at most {_with_origin(decisive.max_running, decisive.source, decisive.app)} at once"
    terminal.result(to_json(changed), f"{name} {text}")


def max_running_from(text: str) -> int | None:
    """Read a limit as people write it."""
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput("limit_unreadable", text=text)
    return int(text)
