"""``horae db``: the tables, their version, and copies of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from horae.cli import words
from horae.cli.failures import Exit
from horae.cli.installation import copies
from horae.cli.terminal import Terminal, actor, command, opened, redact_url, refuse_missing_file
from horae.errors import NotAllowed

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from horae.settings import Settings

T = TypeVar("T")

group = typer.Typer(help="Migrate, check, copy and move the database.", no_args_is_help=True, rich_markup_mode=None)


@command(group, "migrate")
def migrate(terminal: Terminal) -> None:
    """Bring the tables up to date; in a cluster, those of each.

    Safe when several processes do so at once. Also makes partitions of the history ahead, and waits for the locks. A
    database of a cluster that does not answer is named, with exit code 6; repeat it when that is back.
    """
    from horae.actions.partitions import keep_partitions
    from horae.cli.installation import members
    from horae.stores import schema

    if members.are_several(terminal):
        members.migrate_all(terminal)
        return
    url = terminal.settings.database_url
    found = _on_engine(terminal.settings, schema.migrate)
    with opened(terminal) as world:
        made = keep_partitions(world, patient=True)
    done = "already current" if found.is_current else f"migrated from {found.found or 'nothing'} to {found.wanted}"
    done += f", {words.count(made, 'partition')} made" if made else ""
    document = {"found": found.found, "wanted": found.wanted, "migrated": not found.is_current, "partitions": made}
    terminal.result({"schema": document}, f"{redact_url(url)}: {done}")


@command(group, "check")
def check(terminal: Terminal) -> None:
    """Say whether the tables fit this Horae; in a cluster, for each.

    Changes nothing; exit code 6 when a migration is pending or a database of a cluster does not answer.
    """
    from horae.cli.installation import members
    from horae.stores import schema

    url = terminal.settings.database_url
    refuse_missing_file(url)
    if members.are_several(terminal):
        members.check_all(terminal)
        return
    found = _on_engine(terminal.settings, schema.inspect_schema)
    have = "no Horae tables" if found.found is None else f"tables of version {found.found}"
    text = f"{redact_url(url)}: {have}, " + ("current" if found.is_current else f"wanted {found.wanted}")
    document = {"found": found.found, "wanted": found.wanted, "current": found.is_current}
    terminal.result({"schema": document}, text)
    if not found.is_current:
        terminal.say("Run: horae db migrate")
        raise typer.Exit(Exit.FINDINGS)


@command(group, "isolate")
def isolate(
    terminal: Terminal,
    off: Annotated[bool, typer.Option("--off", help="Take the wall down again.")] = False,
) -> None:
    """PostgreSQL: a second wall between tenants, row level security.

    A session that does not say for whom it acts (SET horae.owner) then sees nothing. Horae's own say '*'.
    """
    from horae.stores.databases import isolation

    url = terminal.settings.database_url
    tables = _on_engine(terminal.settings, lambda engine: isolation.isolate(engine, on=not off))
    done = "no longer isolated" if off else "isolated"
    terminal.result({"isolated": not off, "tables": tables}, f"{redact_url(url)}: {len(tables)} tables {done}")


@command(group, "backup", examples=("horae db backup monday.db", "horae db backup monday"))
def backup(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; in a cluster a folder.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Copy the SQLite database while it is in use.

    The copy shows one moment, is checked, and gets its name only when it is whole. No other process waits for it.
    In a cluster every database is copied into a folder, with the map beside them; these copies are not of one moment.
    PostgreSQL is copied there by its own tool, pg_dump.
    """
    from horae.cli.installation import folders, members
    from horae.stores import backup as making

    if members.are_several(terminal):
        folders.back_up_all(terminal, file, force)
        return
    live = copies.file_behind(terminal, "backup", file)
    refuse_missing_file(terminal.settings.database_url)
    made = making.back_up(live, file, force=force, progress=copies.progress_printer(terminal, "copying"))
    terminal.result({"backup": copies.as_json(made)}, copies.in_words(made))


@command(group, "restore")
def restore(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy made with `horae db backup`.")],
    force: Annotated[bool, typer.Option("--force", help="Also while processes work on the database.")] = False,
) -> None:
    """Bring a copy of the SQLite database back.

    The database as it is now is kept beside it. Jobs that were running in the copy are handed on as lost, and
    a worker that still has the newer rows is refused when it is done: tokens and job numbers jump. A database of a
    cluster serves again when it fits the others; until all of them answer it stays closed, with exit code 69.
    """
    from horae.cli.installation import folders
    from horae.stores import backup as making

    live = copies.file_behind(terminal, "restore", file)
    found = making.examine(file)
    member = folders.refuse_other_member(file, live)
    if member is not None and force:
        raise NotAllowed("cluster_restore_forced")
    copies.refuse_if_in_use(live, force)
    with copies.working_copy(file, live, copies.progress_printer(terminal, "reading")) as working:
        if member is None:
            running, readable = copies.prepare(working, live, actor=actor(terminal), file=file)
        else:
            running, readable = folders.prepare_member(terminal, working, live, file)
        kept = copies.replace(working, live, readable, copies.progress_printer(terminal, "writing"))
    document = copies.as_json(found) | {"database": str(live), "kept": None if kept is None else str(kept)}
    answer, text = {"restore": document | {"lost": running}}, f"{live}: restored from {copies.in_words(found)}"
    if member is None:
        terminal.result(answer, text)
    else:
        terminal.say(text)
    if kept is not None:
        terminal.say(f"What was there before is in {kept}")
    if running:
        terminal.say(f"{words.count(running, 'job')} that ran when the copy was made: handed on as lost")
    if member is not None:
        folders.settle(terminal, more=answer)


@command(group, "export", examples=("horae db export --out monday.jsonl",))
def export(
    terminal: Terminal,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where the file goes; else to stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write everything into a file that each database can read.

    JSON lines of one moment, while the database is in use. Secrets stay sealed, tokens are digests; payloads are as
    they are, so keep the file to yourself.
    """
    from horae.cli.installation import transfers

    refuse_missing_file(terminal.settings.database_url)
    transfers.export(terminal, out, force)


@command(group, "import", examples=("horae db import monday.jsonl --db postgresql://horae@db/horae",))
def import_(
    terminal: Terminal,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made with `horae db export`.")],
) -> None:
    """Read such a file into an empty database, of whichever kind.

    The file is checked before anything is written, and written in one transaction. Jobs that were running are handed
    on as lost; numbers and tokens jump, so that a process that still works on the old database is refused here.
    """
    from horae.cli.installation import transfers

    transfers.load(terminal, file)


def _on_engine(settings: Settings, work: Callable[[Engine], T]) -> T:
    """Run *work* on the bare database; errors of its driver become those of Horae."""
    from horae.stores.opening import create_store_engine, store_on

    limits = settings.timeouts
    store = store_on(create_store_engine(settings.database_url, settings.synchronous, limits), limits)
    try:
        return store.run_with_retry(lambda: work(store.engine))
    finally:
        store.close()
