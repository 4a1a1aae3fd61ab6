"""``horae decide``: whether an action may be done, by what it rests on."""

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

    from horae.api.governance.decisions import Decision

group = typer.Typer(
    help="Decide what an agent may do, and see what was decided.", no_args_is_help=True, rich_markup_mode=None
)
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="The tenant; else the house.")]
Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="The agent.")]
RISK = "low, medium or high"


@command(
    group,
    "on",
    by_url=True,
    examples=('horae decide on "refund 40" --cite memory:mem_ab12 --risk high',),
)
def on(
    terminal: Terminal,
    action: Annotated[str, typer.Argument(metavar="ACTION", help="What is to be done, in words.")],
    cite: Annotated[
        list[str] | None, typer.Option("--cite", metavar="KIND:ID", help="An object it rests on; repeat for more.")
    ] = None,
    risk: Annotated[
        str | None, typer.Option("--risk", metavar="RISK", help=f"{RISK}; at least that of the cites.")
    ] = None,
    agent: Agent = None,
    owner: Owner = None,
    reason: Reason = "",
) -> None:
    """Decide whether an action may be done, and write it down.

    Nothing of high risk is ever executed without a person.
    """
    asked: Any = risk
    with reached(terminal) as here:
        made = here.decisions.decide(action, cites=cite or [], risk=asked, agent=agent, owner=owner, reason=reason)
    review = "" if made.opened_review is None else f"; a person is asked: horae review show {made.opened_review}"
    terminal.result(to_json(made), f"{made.id}: {made.outcome}, because {made.reason}{review}")


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    agent: Agent = None,
    outcome: Annotated[str | None, typer.Option("--outcome", metavar="WORD", help="Only with this outcome.")] = None,
    risk: Annotated[str | None, typer.Option("--risk", metavar="RISK", help=f"Only of this risk: {RISK}.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 50,
) -> None:
    """List decisions, newest first."""
    wanted: Any = {"outcome": outcome, "risk": risk}
    with reached(terminal) as here:
        found = tuple(here.decisions.list(agent=agent, owner=owner, limit=limit, **wanted))
        now = here.now()
    headers = ("ID", "DECIDED", "AGENT", "RISK", "OUTCOME", "ACTION")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else "No decisions."
    terminal.result(as_list(found), text)


def _row(each: Decision, now: datetime) -> tuple[str, ...]:
    rolled_back = " (rolled back)" if each.rolled_back_at is not None else ""
    outcome, action = each.outcome + rolled_back, words.first_line(each.action)
    return (each.id, words.relative(each.decided_at, now), each.agent, each.risk, outcome, action)


@command(group, "show", by_url=True)
def show(
    terminal: Terminal,
    decision_id: Annotated[str, typer.Argument(metavar="ID", help="As `horae decide list` shows it.")],
    owner: Owner = None,
) -> None:
    """Show one decision: what the gates said, and what it rests on."""
    with reached(terminal) as here:
        found = here.decisions.get(decision_id, owner=owner)
        now = here.now()
    gates = ", ".join(f"{name} {found.gates.get(name)}" for name in ("persona", "cognition", "risk"))
    lines = [
        f"{found.id}  {found.outcome} ({found.mode}), because {found.reason}",
        f"action    {found.action}",
        f"by        {found.actor} for {found.agent}, {words.both(found.decided_at, now)}",
        f"risk      {found.risk}; gates: {gates}",
        f"cites     {', '.join(found.cites) or 'nothing'}",
    ]
    lines += [f"approved  by review {found.review}"] if found.review else []
    lines += [f"before    {found.predecessor}"] if found.predecessor else []
    lines += [f"after     {found.successor}"] if found.successor else []
    lines += [f"rolled back {words.both(found.rolled_back_at, now)}"] if found.rolled_back_at else []
    terminal.result(to_json(found), "\n".join(lines))
