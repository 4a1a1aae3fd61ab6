"""Copies of a SQLite database for ``horae db backup`` and ``restore``; for a server, the tool that makes them."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horae.actions.jobs import endings
from horae.cli import words
from horae.cli.terminal import Terminal, sqlite_file
from horae.errors import InvalidInput, NotAllowed

if TYPE_CHECKING:
    from horae.ports.workers import Node
    from horae.stores.backup import Copy, Progress

PRINT_EVERY = 10  # per cent
SEEN = timedelta(minutes=3)  # three heartbeats
SEVERAL = ("host", "port", "target_session_attrs")  # options of a URL that names several hosts
# What a server's own tools are called: how to make a copy, how to bring it back.
TOOLS = {
    "postgresql": (
        "pg_dump --format=custom --file={file} {url}",
        # Into a new database: pg_restore cannot clean away partitioned tables.
        "createdb {connection} {restored} && pg_restore --single-transaction --dbname={restored_url} {file}",
    ),
    # A trigger would come back only for the same user; `horae db migrate` makes them anew.
    "mysql": (
        "mariadb-dump --single-transaction --quick --skip-triggers {connection} --result-file={file} {database}",
        "mariadb {connection} {database} < {file} && horae db migrate",
    ),
}


def file_behind(terminal: Terminal, verb: str, file: Path) -> Path:
    """Return the SQLite file; refuse a server, with the command that does it there."""
    url = terminal.settings.database_url
    found = sqlite_file(url)
    if found is not None:
        return found
    tool = _server_tool(url, verb, file)
    if tool is None:
        raise InvalidInput("copy_in_memory")
    if verb == "restore":
        raise InvalidInput("restore_with_tool", tool=tool)
    raise InvalidInput("copy_with_tool", tool=tool)


def _server_tool(url: str, verb: str, file: Path) -> str | None:
    """Return the command that copies a server's database or brings it back; None for a database in memory."""
    from sqlalchemy import URL

    from horae.stores.databases.dialects import BY_NAME
    from horae.stores.opening import create_store_engine

    parsed = create_store_engine(url).url
    kind = BY_NAME[parsed.get_backend_name()].name
    if kind not in TOOLS:
        return None
    several = {name: value for name, value in parsed.query.items() if name in SEVERAL}  # as libpq reads them, too
    plain = URL.create(kind, parsed.username, None, parsed.host, parsed.port, parsed.database, several)
    restored = f"{parsed.database}_restored"
    given = {
        "--host": parsed.host,
        "--port": parsed.port,
        "--username" if kind == "postgresql" else "--user": parsed.username,
    }
    connection = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in given.items() if value)
    return TOOLS[kind][verb == "restore"].format(
        file=shlex.quote(str(file)),
        url=shlex.quote(plain.render_as_string()),
        restored=shlex.quote(restored),
        restored_url=shlex.quote(plain.set(database=restored).render_as_string()),
        connection=connection,
        database=shlex.quote(str(parsed.database)),
    )


def progress_printer(terminal: Terminal, doing: str) -> Progress:
    """Return a listener that prints progress now and then, and nothing for what is done at once."""
    next_share = PRINT_EVERY

    def progress(done: int, total: int) -> None:
        nonlocal next_share
        share = 100 * done // max(total, 1)
        if done < total and share >= next_share:
            terminal.say(f"{doing}: {share} %")
            next_share = share - share % PRINT_EVERY + PRINT_EVERY

    return progress


def as_json(copy: Copy) -> dict[str, Any]:
    return {"file": str(copy.path), "bytes": copy.bytes, "schema": copy.version, "rows": copy.rows}


def in_words(copy: Copy) -> str:
    rows = copy.rows
    live = f"{words.count(rows.get('horae_jobs', 0), 'job')}, {words.count(rows.get('horae_schedules', 0), 'schedule')}"
    past = words.count(rows.get("horae_runs", 0), "recorded run")
    return f"{copy.path}: {size(copy.bytes)}, tables {copy.version}, {live}, {past}"


def size(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"


# -- restore -----------------------------------------------------------------------------------------------------------


def refuse_if_in_use(live: Path, force: bool) -> None:
    """Refuse to replace a database that other processes work on."""
    from horae.stores import backup

    if force or not live.exists():
        return
    alive = live_nodes(live)
    if alive:
        raise NotAllowed("database_served", nodes=[node.node_id for node in alive], path=str(live))
    if backup.is_open_elsewhere(live):
        raise NotAllowed("database_open_elsewhere", path=str(live))


def live_nodes(live: Path) -> list[Node]:
    """Return the workers and servers that were seen lately and, on this machine, still run."""
    from horae.app import Horae
    from horae.errors import HoraeError

    try:
        with Horae(f"sqlite:///{live}") as app:
            world = app.world if app.world.cluster is None else app.world.cluster.opened(app.world)
            now = world.clock.now()
            nodes = world.store.read(lambda tx: tx.nodes.all())
    except HoraeError:
        return []  # no process works on a database that cannot be read
    return [node for node in nodes if node.seen_at > now - SEEN and _runs(node)]


def _runs(node: Node) -> bool:
    if node.host != socket.gethostname():
        return True
    try:
        os.kill(node.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def working_copy(file: Path, live: Path, progress: Progress) -> Iterator[Path]:
    """Yield a copy of the file beside the database, so that the file itself stays as it is."""
    from horae.stores import backup

    live.parent.mkdir(parents=True, exist_ok=True)
    working = live.with_name(live.name + ".restoring")
    try:
        backup.back_up(file, working, force=True, progress=progress)
        yield working
    finally:
        for suffix in ("", *backup.BESIDE):
            working.with_name(working.name + suffix).unlink(missing_ok=True)


def prepare(working: Path, live: Path, *, actor: str, file: Path) -> tuple[int, bool]:
    """Bring a copy up to date and fence it; return how many jobs ran in it, and whether the database is readable."""
    from horae.app import Horae
    from horae.core.audit.entries import Entry
    from horae.stores import backup

    with Horae(f"sqlite:///{working}") as app:  # opening migrates it
        marks = backup.marks_of(live) if live.exists() else None
        now = app.world.clock.now()
        running = backup.fence(working, marks)
        while endings.lose_expired(app.world, limit=500):
            continue
        entry = Entry(now, actor, "restore", "database", live.name, after={"file": file.name, "running": running})
        app.world.store.transact(lambda tx: tx.audit.append(entry))
    return running, marks is not None


def replace(working: Path, live: Path, readable: bool, progress: Progress) -> Path | None:
    """Put the copy in place of the database; return where the database as it was is kept."""
    from horae.stores import backup

    if not live.exists():
        os.replace(working, live)
        return None
    if not readable:
        aside = backup.free_name(live)
        backup.set_aside(live)
        os.replace(working, live)
        return aside
    before = backup.back_up(live, backup.free_name(live))
    backup.exchange(working, live, progress)
    return before.path
