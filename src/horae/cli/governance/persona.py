"""``horae persona``: what an agent does not do, and what it values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.governance.decide import Owner
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from horae.api.governance.personas import Boundary, Persona

group = typer.Typer(
    help="Say what an agent must not do, and see who said it.", no_args_is_help=True, rich_markup_mode=None
)
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent; '*' for every agent of the owner.")]


@command(
    group,
    "set",
    by_url=True,
    examples=("horae persona set planner --block 'delete data' --limit refund --value care",),
)
def set_(
    terminal: Terminal,
    agent: Agent,
    block: Annotated[
        list[str] | None, typer.Option("--block", metavar="TEXT", help="Found in an action or its content, it blocks.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="TEXT", help="The same, but the action is only limited.")
    ] = None,
    value: Annotated[list[str] | None, typer.Option("--value", metavar="TEXT", help="What the agent values.")] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Keep it, and let it no longer hold.")] = False,
    owner: Owner = None,
    reason: Reason = "",
) -> None:
    """Set the persona of an agent as a whole; what is left out is gone.

    Only a person may: the local command line, or a token that no agent holds.
    """
    boundaries: list[Any] = [{"text": each, "effect": "block"} for each in block or ()]
    boundaries += [{"text": each, "effect": "limit"} for each in limit or ()]
    with reached(terminal, may_create=True) as here:
        changed = here.personas.set(
            agent, boundaries=boundaries, values=value or [], archived=archived, reason=reason, owner=owner
        )
    terminal.result(to_json(changed), f"persona of {changed.agent}, version {changed.version}: {_rules(changed)}")


def _rules(persona: Persona) -> str:
    return _words_of(persona.boundaries, persona.values, archived=persona.archived)


def _words_of(boundaries: Sequence[Boundary], values: Sequence[str], *, archived: bool) -> str:
    kept = [f"{each.effect}s {each.text!r}" for each in boundaries] + [f"values {each!r}" for each in values]
    return ("archived; " if archived else "") + (", ".join(kept) or "nothing")


@command(group, "show", by_url=True)
def show(terminal: Terminal, agent: Agent, owner: Owner = None) -> None:
    """Show the persona of an agent."""
    with reached(terminal) as here:
        found = here.personas.get(agent, owner=owner)
        now = here.now()
    changed = f"version {found.version}, by {found.changed_by} {words.both(found.changed_at, now)}"
    terminal.result(to_json(found), f"{found.agent}: {_rules(found)}\n{changed}")


@command(group, "list", by_url=True)
def list_(terminal: Terminal, owner: Owner = None) -> None:
    """List personas, by agent."""
    with reached(terminal) as here:
        found = here.personas.list(owner=owner)
        now = here.now()
    rows = [
        (each.agent, str(each.version), words.relative(each.changed_at, now), each.changed_by, _rules(each))
        for each in found
    ]
    text = terminal.table(("AGENT", "VERSION", "CHANGED", "BY", "RULES"), rows) if found else "No personas."
    terminal.result(as_list(found), text)


@command(group, "history", by_url=True)
def history(
    terminal: Terminal,
    agent: Agent,
    owner: Owner = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 50,
) -> None:
    """List who set a persona to what, newest first."""
    with reached(terminal) as here:
        found = tuple(here.personas.history(agent, owner=owner, limit=limit))
        now = here.now()
    rows = [
        (words.relative(each.at, now), each.actor, _words_of(each.boundaries, each.values, archived=each.archived),
         each.reason or "-")
        for each in found
    ]  # fmt: skip
    text = terminal.table(("CHANGED", "BY", "RULES", "REASON"), rows) if found else "No changes."
    terminal.result(as_list(found), text)
