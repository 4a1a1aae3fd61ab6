"""``horae db``: the tables and their version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from horae.cli.failures import Exit
from horae.cli.terminal import Terminal, command, refuse_missing_file, shown_url

if TYPE_CHECKING:
    from horae.stores.schema import Schema

group = typer.Typer(help="Migrate and check the database.", no_args_is_help=True, rich_markup_mode=None)


@command(group, "migrate")
def migrate(terminal: Terminal) -> None:
    """Bring the tables up to date.

    Safe when several processes do so at once.
    """
    from horae.stores import schema

    url = terminal.settings.database_url
    found = _on_engine(url, schema.migrate)
    done = "already current" if found.is_current else f"migrated from {found.found or 'nothing'} to {found.wanted}"
    told = {"found": found.found, "wanted": found.wanted, "migrated": not found.is_current}
    terminal.result({"schema": told}, f"{shown_url(url)}: {done}")


@command(group, "check")
def check(terminal: Terminal) -> None:
    """Say whether the tables fit this Horae.

    Changes nothing; exit code 6 when a migration is pending.
    """
    from horae.stores import schema

    url = terminal.settings.database_url
    refuse_missing_file(url)
    found = _on_engine(url, schema.inspect_schema)
    have = "no Horae tables" if found.found is None else f"tables of version {found.found}"
    text = f"{shown_url(url)}: {have}, " + ("current" if found.is_current else f"wanted {found.wanted}")
    told = {"found": found.found, "wanted": found.wanted, "current": found.is_current}
    terminal.result({"schema": told}, text)
    if not found.is_current:
        terminal.say("Run: horae db migrate")
        raise typer.Exit(Exit.FINDINGS)


def _on_engine(url: str, work: object) -> Schema:
    """Do something to the bare database; what its driver says comes back in our words."""
    from horae.stores.opening import create_store_engine, store_on

    store = store_on(create_store_engine(url))
    try:
        found: Schema = store.persistently(lambda: work(store.engine))  # type: ignore[operator]
        return found
    finally:
        store.close()
