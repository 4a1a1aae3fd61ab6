"""``horae console``: a link that logs a browser in to the web console."""

from __future__ import annotations

from typing import Annotated

import typer

from horae.api.values import to_json
from horae.cli import words
from horae.cli.jobs.bulk import Reason
from horae.cli.terminal import Terminal, command
from horae.cli.verbs import reached
from horae.settings import Settings

group = typer.Typer(help="Open the web console.", no_args_is_help=True, rich_markup_mode=None)


@command(
    group,
    "link",
    by_url=True,
    examples=(
        "horae console link",
        "horae console link --owner alice --scopes tasks",
        "horae console link --scopes read",
    ),
)
def link(
    terminal: Terminal,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Log in as this tenant; else as the operator.")
    ] = None,
    scopes: Annotated[
        str, typer.Option("--scopes", metavar="A,B", help="What the browser may do: tasks, worker, read, admin.")
    ] = "",
    reason: Reason = "",
) -> None:
    """Print a link that logs one browser in, once, within ten minutes.

    The session lasts for a week at most, and for twelve hours without a request. It ends with its token: with --url
    that is the caller's own, unless --owner or --scopes is given, else a new one that `horae token list` shows.

    Without --url the link leads to $HORAE_PUBLIC_URL, else to $HORAE_HOST and $HORAE_PORT (127.0.0.1 and 8765): set
    them as for the service, which must serve the same database.
    """
    with reached(terminal, may_create=True) as here:
        made = here.sessions.create_code(owner=owner, scopes=scopes.split(","), reason=reason)
        now = here.now()
    url = login_url(terminal.url or address_of(terminal.settings), made.code)
    terminal.say(
        f"Valid once, for {words.span(made.expires_at - now)}. Its session ends with the token {made.token_id}."
    )
    if terminal.url is None and not terminal.settings.public_url:
        terminal.say("For a server on another port: HORAE_PORT=8766 horae console link")
    terminal.result({**to_json(made), "url": url}, url)


def login_url(base: str, code: str) -> str:
    """Return the page that logs a browser in with a code."""
    return f"{base.rstrip('/')}/console/login?code={code}"


def address_of(settings: Settings) -> str:
    """Return where a service with these settings is reached from this machine."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return settings.public_url or f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
