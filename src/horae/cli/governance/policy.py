"""``horae policy``: the numbers by which objects are governed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.governance.decide import Owner
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.governance.policies import Policy

group = typer.Typer(help="See and set how objects age and are verified.", no_args_is_help=True, rich_markup_mode=None)
Kind = Annotated[str, typer.Argument(metavar="KIND", help="memory, experience or cognition.")]
Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent; '*' for all.")]


@command(group, "list", by_url=True)
def list_(terminal: Terminal, owner: Owner = None) -> None:
    """List policies, the built-in ones first."""
    with reached(terminal) as here:
        found = here.policies.list(owner=owner)
        now = here.now()
    rows = [
        (each.kind, each.agent, str(each.version), ", ".join(each.changed) or "-", _by(each, now)) for each in found
    ]
    terminal.result(as_list(found), terminal.table(("KIND", "AGENT", "VERSION", "CHANGED", "SET"), rows))


@command(group, "show", by_url=True)
def show(terminal: Terminal, kind: Kind, agent: Agent = "*", owner: Owner = None) -> None:
    """Show the policy that holds for a kind, and an agent."""
    with reached(terminal) as here:
        found = here.policies.get(cast("Any", kind), agent=agent, owner=owner)
        now = here.now()
    terminal.result(to_json(found), _words_of(found, now))


@command(
    group,
    "set",
    by_url=True,
    examples=("horae policy set memory verify_budget=3 stability=1209600",),
)
def set_(
    terminal: Terminal,
    kind: Kind,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE…", help="Spans in seconds, shares from 0 to 1.")
    ] = None,
    agent: Agent = "*",
    owner: Owner = None,
    reason: Reason = "",
) -> None:
    """Set the policy of a kind as a whole.

    What is left out is as built in. Objects follow it from their next action on; `horae governance replan` lets them
    follow at once.
    """
    given = dict(_setting(each) for each in settings or ())
    with reached(terminal, may_create=True) as here:
        changed = here.policies.set(cast("Any", kind), given, agent=agent, reason=reason, owner=owner)
        now = here.now()
    terminal.result(to_json(changed), _words_of(changed, now))


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput("setting_unreadable", text=text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _by(found: Policy, now: datetime) -> str:
    return found.set_by if found.set_at is None else f"by {found.set_by} {words.relative(found.set_at, now)}"


def _words_of(found: Policy, now: datetime) -> str:
    whose = "all agents" if found.agent == "*" else found.agent
    lines = [f"policy of {whose} for {found.kind}, version {found.version}: {_by(found, now)}"]
    width = max(len(name) for name in found.settings)
    marked = set(found.changed)
    lines += [
        f"{'*' if name in marked else ' '} {name.ljust(width)}  {json.dumps(value, ensure_ascii=False)}"
        for name, value in found.settings.items()
    ]
    return "\n".join(lines)
