"""``horae db export`` and ``import``: a database as a file, and the file as a database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from horae.actions.jobs import endings
from horae.cli import words
from horae.cli.files import open_whole
from horae.cli.installation.copies import progress_printer, size
from horae.cli.terminal import Terminal, actor, opened, redact_url
from horae.core.audit.entries import Entry
from horae.core.time.instants import iso
from horae.errors import InvalidInput

if TYPE_CHECKING:
    from sqlalchemy import Engine


def export(terminal: Terminal, out: Path | None, force: bool) -> None:
    """Write the database to a file, or to stdout."""
    from horae.clock import SystemClock
    from horae.stores.transfer.export import export as write

    if out is not None and out.exists() and not force:
        raise InvalidInput("backup_exists", path=str(out))
    with _engine(terminal) as engine, _target(out) as target:
        done = write(
            engine, target, created_at=iso(SystemClock().now()), progress=progress_printer(terminal, "writing")
        )
    text = f"{words.count(done.rows, 'row')}, {size(done.bytes)}"
    if out is None:
        terminal.say(f"exported {text}")
        return
    document = {"file": str(out), "bytes": done.bytes, "rows": done.counts}
    terminal.result({"export": document}, f"{out}: {text}")


def load(terminal: Terminal, file: Path) -> None:
    """Check a file, write its rows, and hand on the jobs that were running."""
    from horae.clock import SystemClock
    from horae.stores.transfer.load import check
    from horae.stores.transfer.load import load as write

    checked = check(file)

    def entry(running: int) -> Entry:
        after = {"file": file.name, "rows": checked.rows, "running": running, "sha256": checked.sha256}
        return Entry(SystemClock().now(), actor(terminal), "import", "database", "horae", after=after)

    with _engine(terminal) as engine:
        running = write(engine, checked, progress=progress_printer(terminal, "reading"), entry=entry)
    with opened(terminal) as world:
        while endings.lose_expired(world, limit=500):
            continue
    url = redact_url(terminal.settings.database_url)
    document = {"file": str(file), "database": url, "rows": dict(checked.counts), "lost": running}
    terminal.result({"import": document}, f"{url}: {words.count(checked.rows, 'row')} of {checked.created_at} imported")
    if running:
        terminal.say(f"{words.count(running, 'job')} that ran when the file was made: handed on as lost")


@contextmanager
def _engine(terminal: Terminal) -> Iterator[Engine]:
    from horae.stores.opening import create_store_engine, store_on

    settings = terminal.settings
    store = store_on(create_store_engine(settings.database_url, settings.synchronous, settings.timeouts))
    try:
        yield store.engine
    finally:
        store.close()


@contextmanager
def _target(out: Path | None) -> Iterator[BinaryIO]:
    """Yield where the lines go; a file gets its name when it is whole, and only its owner may read it."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with open_whole(out) as file:
            yield file
    except OSError as problem:
        raise InvalidInput("backup_unwritable", path=str(out), problem=str(problem.strerror)) from problem
