"""``horae token``: who may call the service."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.core.time.spans import span_from

if TYPE_CHECKING:
    from datetime import datetime

    from horae.api.access.values import Token

group = typer.Typer(help="Make, list and revoke tokens of the service.", no_args_is_help=True, rich_markup_mode=None)
Owner = Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only this tenant's.")]


@command(
    group,
    "create",
    by_url=True,
    examples=(
        "horae token create --owner alice --scopes tasks,worker --expires 90d",
        "horae token create --owner system --scopes admin --name console",
        "horae token create --owner alice --scopes tasks --agent planner",
    ),
)
def create(
    terminal: Terminal,
    owner: Annotated[
        str, typer.Option("--owner", metavar="NAME", help="Whose it is: the tenant; system for the operator.")
    ],
    scopes: Annotated[
        str, typer.Option("--scopes", metavar="A,B", help="What it may do: tasks, worker, read, review, admin.")
    ] = "tasks",
    expires: Annotated[
        str, typer.Option("--expires", metavar="SPAN", help="How long it is valid: 12h, 90d, never.")
    ] = "90d",
    queues: Annotated[str, typer.Option("--queues", metavar="A,B", help="The only queues it reaches; else all.")] = "",
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="The agent that holds it; it is then no person.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What it is for, to tell it apart.")] = "",
    reason: Reason = "",
) -> None:
    """Make a token and show it, this once.

    Only a digest is stored: a token that is lost cannot be shown again; make another.
    """
    with reached(terminal, may_create=True) as here:
        made = here.tokens.create(
            owner,
            scopes.split(","),
            name=name,
            queues=[queue.strip() for queue in queues.split(",") if queue.strip()],
            agent=agent,
            expires_in=_life(expires),
            reason=reason,
        )
        now = here.now()
    terminal.say(f"{made.id}: for {owner}, may {', '.join(made.scopes)}, {_until(made.expires_at, now)}.")
    terminal.say("It is shown only now; keep it where secrets are kept.")
    terminal.result(to_json(made), made.token)


def _life(text: str) -> timedelta | None:
    return None if text == "never" else span_from(text, "life of a token")


@command(group, "list", by_url=True)
def list_(
    terminal: Terminal,
    owner: Owner = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=1000, help="How many.")] = 100,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Go on where the page before ended.")
    ] = None,
) -> None:
    """Tokens, newest first, without their secrets."""
    with reached(terminal) as here:
        page = here.tokens.list(owner=owner).page(cursor, limit=limit)
        now = here.now()
    headers = ("ID", "OWNER", "AGENT", "SCOPES", "STATE", "EXPIRES", "LAST USED", "NAME")
    nothing = "No more tokens." if cursor else "No token yet."
    text = terminal.table(headers, [_row(each, now) for each in page.items]) if page.items else nothing
    terminal.result(to_json(page), text)
    terminal.mention_more(page.next_cursor)


def _row(token: Token, now: datetime) -> tuple[str, ...]:
    expires = "never" if token.expires_at is None else words.relative(token.expires_at, now)
    used = "never" if token.used_at is None else f"{words.relative(token.used_at, now)} from {token.used_from or '?'}"
    return (token.id, token.owner, token.agent or "-", ",".join(token.scopes), token.state, expires, used, token.name)


@command(group, "revoke", by_url=True)
def revoke(
    terminal: Terminal,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `token list` shows it.")],
    reason: Reason = "",
) -> None:
    """Refuse a token from the next request on.

    Whatever waits with it ends within a second.
    """
    with reached(terminal) as here:
        revoked = here.tokens.revoke(token_id, reason=reason)
    terminal.result(to_json(revoked), f"{revoked.id} of {revoked.owner} is revoked")


def _until(expires_at: datetime | None, now: datetime) -> str:
    return (
        "until it is revoked"
        if expires_at is None
        else f"for {words.span(expires_at - now)}, until {words.exact(expires_at)}"
    )
