"""``horae demo``: stories that run here and now, without a key, a network or a server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from horae.cli.terminal import Terminal, command
from horae.errors import Conflict, InvalidInput

DEMOS = {
    "attention": "One agent, one focus: interrupted, waiting, resumed.",
    "governance": "Five memories: verified, forged, uncertain, blocked, back.",
}
STORIES = 5

group = typer.Typer(
    help="See Horae at work: stories that need nothing set up.",
    rich_markup_mode=None,
    invoke_without_command=True,
)


@group.callback()
def demos(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        print("\n".join(f"horae demo {name:<12}{about}" for name, about in DEMOS.items()))


@command(group, "attention")
def attention(
    terminal: Terminal,
    crash: Annotated[
        bool, typer.Option("--crash", help="Kill the process with SIGKILL inside an action, and restart.")
    ] = False,
    early: Annotated[bool, typer.Option("--early", help="Let the answer come before the task waits for it.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Add a refund, which needs your word.")] = False,
    real: Annotated[bool, typer.Option("--real", help="On the wall clock, with shortened spans.")] = False,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="FILE", help="Leave the database there, to look at with horae attention."),
    ] = None,
) -> None:
    """One agent, one focus: interrupted, waiting, resumed.

    A report is being written when the database goes down. The alert takes the focus, pages Alice and waits; the report
    goes on meanwhile. Alice stays silent, Bob answers, both finish. Rules play the model's part, and time is
    simulated: it jumps to whatever is due next.
    """
    if terminal.database is not None:
        raise InvalidInput("demo_database_given")
    import asyncio

    from horae.cli.demo.run import Performance, Switches

    with _database_file(keep) as database:
        asyncio.run(Performance(terminal, database, Switches(crash, early, confirm, real)).run())


@command(group, "governance", examples=("horae demo governance", "horae demo governance --story 2 --crash"))
def governance(
    terminal: Terminal,
    story: Annotated[
        int | None, typer.Option("--story", min=1, max=STORIES, metavar="N", help="Only this one, 1 to 5.")
    ] = None,
    crash: Annotated[
        bool, typer.Option("--crash", help="Kill the process with SIGKILL inside a verifier, and restart.")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="FILE", help="Leave the database there, to look at with horae object."),
    ] = None,
) -> None:
    """Five memories: verified, forged, uncertain, blocked, back.

    What an agent remembers comes due: it is verified, looked at again, doubted, taken back with all that rests on it.
    The stories are told from the entries that they leave in the audit, and each ends with its proof. Rules play the
    verifier's part, and time is simulated: it jumps to whatever is due next.
    """
    if terminal.database is not None:
        raise InvalidInput("demo_database_given")
    import asyncio

    from horae.cli.demo.narration import tell

    with _database_file(keep) as database:
        asyncio.run(tell(terminal, database, [story] if story else range(1, STORIES + 1), crash=crash))


@contextmanager
def _database_file(keep: str | None) -> Iterator[Path]:
    """Yield the file of the database while the story runs; copy it where it shall be kept."""
    if keep is not None and Path(keep).exists():
        raise Conflict("demo_file_exists", path=keep)
    with tempfile.TemporaryDirectory(prefix="horae-demo-", ignore_cleanup_errors=True) as folder:
        database = Path(folder) / "demo.db"
        yield database
        if keep is not None:
            _copy(database, Path(keep))


def _copy(database: Path, file: Path) -> None:
    """Copy the whole database, with what its write-ahead log still holds."""
    import sqlite3
    from contextlib import closing

    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(file)) as target:
        source.backup(target)
