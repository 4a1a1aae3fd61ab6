"""``horae budget``: how much may be spent, and how much is."""

from __future__ import annotations

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

    from horae.api.governance.budgets import Budget, PeriodUsage

group = typer.Typer(help="Set what jobs may spend, and see what they do.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The budget: llm, or llm/agent for one agent.")]
Unit = Annotated[str, typer.Argument(metavar="UNIT", help="calls, tokens or micros of money.")]
Period = Annotated[str, typer.Option("--period", metavar="PERIOD", help="day, month or ever, in UTC.")]


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only budgets of this name.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 100,
) -> None:
    """List budgets and what their present periods have used."""
    with reached(terminal) as here:
        found = tuple(here.budgets.list(name=name, owner=owner, limit=limit))
        now = here.now()
    headers = ("NAME", "UNIT", "PERIOD", "OWNER", "SETTLED", "RESERVED", "CAPACITY", "LEFT", "REFILL")
    text = terminal.table(headers, [_row(each, now) for each in found]) if found else "No budgets: nothing is limited."
    terminal.result(as_list(found), text)


def _row(each: Budget, now: datetime) -> tuple[str, ...]:
    figures = (f"{each.settled:,}", f"{each.reserved:,}", _limit(each.capacity), _left(each.left, each.overdrawn))
    refill = "never" if each.refill_at is None else words.relative(each.refill_at, now)
    return (_name(each), each.unit, each.period, each.owner, *figures, refill)


def _name(each: Budget) -> str:
    return each.name if each.agent == "*" else f"{each.name}/{each.agent}"


def _limit(capacity: int | None) -> str:
    return "-" if capacity is None else f"{capacity:,}"


def _left(left: int | None, overdrawn: int) -> str:
    if left is None:
        return "-"
    return f"{left:,}" + (" (overdrawn)" if overdrawn and left < 0 else "")


@command(group, "show", by_url=True)
def show(terminal: Terminal, name: Name, unit: Unit, period: Period = "day", owner: Owner = None) -> None:
    """Show one budget."""
    with reached(terminal) as here:
        found = here.budgets.get(name, cast("Any", unit), period=cast("Any", period), owner=owner)
        now = here.now()
    terminal.result(to_json(found), _words_of(found, now))


def _words_of(found: Budget, now: datetime) -> str:
    refill = "never" if found.refill_at is None else words.both(found.refill_at, now)
    changed = "" if found.changed_at is None else f", set by {found.changed_by} {words.both(found.changed_at, now)}"
    lines = [
        f"{_name(found)}: {found.unit} per {found.period}{changed}",
        f"capacity  {_limit(found.capacity)}",
        f"settled   {found.settled:,}",
        f"reserved  {found.reserved:,} by attempts that run",
        f"left      {_left(found.left, found.overdrawn)}",
        f"refill    {refill}",
        f"waits     {words.count(found.put_backs, 'attempt')} found it empty in this period",
    ]
    return "\n".join(lines)


@command(
    group,
    "set",
    by_url=True,
    examples=("horae budget set llm tokens 2000000", "horae budget set llm micros 50000000 --period month"),
)
def set_(
    terminal: Terminal,
    name: Name,
    unit: Unit,
    capacity: Annotated[str, typer.Argument(metavar="CAPACITY", help="A whole number; none: it only counts.")],
    period: Period = "day",
    owner: Owner = None,
    reason: Reason = "",
) -> None:
    """Set what may be spent in each period, from the present one on.

    Jobs that wait for the budget are due at once.
    """
    most = None if capacity == "none" else _whole(capacity)
    with reached(terminal, may_create=True) as here:
        changed = here.budgets.set(
            name, cast("Any", unit), most, period=cast("Any", period), reason=reason, owner=owner
        )  # fmt: skip
        now = here.now()
    terminal.result(to_json(changed), _words_of(changed, now))


@command(
    group,
    "adjust",
    by_url=True,
    examples=("horae budget adjust llm tokens 12000 --reason 'spent by hand'",),
)
def adjust(
    terminal: Terminal,
    name: Name,
    unit: Unit,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Spent elsewhere; -- -500 for a refund.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")],
    period: Period = "day",
    owner: Owner = None,
) -> None:
    """Correct what the present period has used."""
    with reached(terminal) as here:
        changed = here.budgets.adjust(
            name, cast("Any", unit), _whole(amount), reason=reason, period=cast("Any", period), owner=owner
        )
        now = here.now()
    terminal.result(to_json(changed), _words_of(changed, now))


@command(group, "history", by_url=True)
def history(
    terminal: Terminal,
    name: Name,
    unit: Unit,
    period: Period = "day",
    owner: Owner = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="At most so many.")] = 30,
) -> None:
    """List the periods in which a budget was used, the latest first."""
    with reached(terminal) as here:
        found = tuple(
            here.budgets.history(name, cast("Any", unit), period=cast("Any", period), owner=owner, limit=limit)
        )
    headers = ("SINCE", "SETTLED", "RESERVED", "CAPACITY", "LEFT", "OVERDRAWN", "PUT BACK")
    text = terminal.table(headers, [_period_row(each) for each in found]) if found else "Not used yet."
    terminal.result(as_list(found), text)


def _period_row(each: PeriodUsage) -> tuple[str, ...]:
    figures = (f"{each.settled:,}", f"{each.reserved:,}", _limit(each.capacity), _left(each.left, 0))
    return (f"{each.starts_at:%Y-%m-%d}", *figures, f"{each.overdrawn:,}", str(each.put_backs))


def _whole(text: str) -> int:
    try:
        return int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise InvalidInput("amount_unreadable", text=text) from None
