"""``horae review``: questions that a person answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from horae.api.values import as_list, to_json
from horae.cli import words
from horae.cli.governance.decide import Owner
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.governance.reviews import Review

group = typer.Typer(
    help="See what a person is asked about an agent, and answer.", no_args_is_help=True, rich_markup_mode=None
)
Id = Annotated[str, typer.Argument(metavar="ID", help="As `horae review list` shows it.")]


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    open_: Annotated[bool, typer.Option("--open", help="Only those that wait for an answer.")] = False,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 50,
) -> None:
    """List reviews, newest first."""
    with reached(terminal) as here:
        found = tuple(here.reviews.list(state=["open"] if open_ else [], owner=owner, limit=limit))
        now = here.now()
    headers = ("ID", "OPENED", "KIND", "ABOUT", "AGENT", "ANSWER")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else "No reviews."
    terminal.result(as_list(found), text)


def _row(each: Review, now: datetime) -> tuple[str, ...]:
    answer = each.answer or f"open until {words.relative(each.deadline, now)}"
    return (each.id, words.relative(each.opened_at, now), each.kind, _about(each), each.agent, answer)


def _about(each: Review) -> str:
    return each.about or f"decision:{each.decision}"


@command(group, "show", by_url=True)
def show(terminal: Terminal, review_id: Id, owner: Owner = None) -> None:
    """Show one review."""
    with reached(terminal) as here:
        found = here.reviews.get(review_id, owner=owner)
        now = here.now()
    lines = [
        f"{found.id}  {found.state}: {_about(found)}, opened by {found.opened_by} {words.both(found.opened_at, now)}",
        f"question  {found.question or found.kind}",
        f"deadline  {words.both(found.deadline, now)}",
    ]
    lines += [f"decision  {found.decision}"] if found.decision else []
    lines += [f"answer    {found.answer} by {found.answered_by}"] if found.answer else []
    lines += [f"note      {found.note}"] if found.note else []
    lines += [f"made      decision {found.successor}"] if found.successor else []
    terminal.result(to_json(found), "\n".join(lines))


@command(group, "ask", by_url=True, examples=('horae review ask memory:mem_ab12cd34ef56 --question "Is it still so?"',))
def ask(
    terminal: Terminal,
    about: Annotated[str, typer.Argument(metavar="KIND:ID", help="The object or the decision.")],
    question: Annotated[str, typer.Option("--question", metavar="TEXT", help="What a person shall answer.")],
    owner: Owner = None,
) -> None:
    """Ask a person about an object or a decision."""
    with reached(terminal) as here:
        opened = here.reviews.ask(about, question, owner=owner)
        now = here.now()
    terminal.result(to_json(opened), f"{opened.id} waits for an answer until {words.both(opened.deadline, now)}")


@command(group, "answer", by_url=True, examples=("horae review answer rev_5f2a9c0d3b7e approve --note 'I asked'",))
def answer(
    terminal: Terminal,
    review_id: Id,
    given: Annotated[str, typer.Argument(metavar="ANSWER", help="approve, reject or ask_more.")],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept in the audit.")] = "",
    owner: Owner = None,
) -> None:
    """Answer a review; the first answer counts.

    Only a person may, and never the actor who proposed the object or took the decision.
    """
    chosen: Any = given
    with reached(terminal) as here:
        closed = here.reviews.answer(review_id, chosen, note=note, owner=owner)
    made = f"; it made decision {closed.successor}" if closed.successor else ""
    terminal.result(to_json(closed), f"{closed.id} is answered: {closed.answer}{made}")
