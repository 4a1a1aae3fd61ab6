"""Back up and restore a SQLite database while other processes use it.

A copy is taken inside one read transaction, so that it shows a single moment however much is written meanwhile, and
blocks no writer. It gets its name only when it is complete and checked.

Restoring turns time back, while workers may still run jobs of the newer rows. So the copy is *fenced* before it takes
effect: tokens and job numbers jump above all that were ever issued, and the leases of running jobs end. Then its pages
replace the database's in one transaction: other processes see the old rows or the new ones, never half of each.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import field
from pathlib import Path

from horae.core.dataclass import dataclass
from horae.errors import InvalidInput, NotFound, SchemaMissing, SchemaTooNew, StoreBusy, StoreFull, StoreUnavailable
from horae.stores.databases.dialects import NO_ROOM
from horae.stores.databases.sqlite import BUSY_TIMEOUT_MS, LONG_AGO
from horae.stores.schema import HEAD, KNOWN, REMOVED, VERSION_TABLE

Progress = Callable[[int, int], None]  # pages copied, pages in all
STEP = 2_000  # pages between two reports of progress
JUMP = 1_000_000  # more than all claims and enqueues between reading the marks and the exchange
MAGIC = b"SQLite format 3\0"
BESIDE = ("-wal", "-shm")  # what SQLite keeps beside a database


@dataclass(frozen=True, slots=True)
class Copy:
    """A file that was looked through and found whole."""

    path: Path
    bytes: int
    version: str
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def is_current(self) -> bool:
        return self.version == HEAD


def back_up(source: Path, target: Path, *, force: bool = False, progress: Progress | None = None) -> Copy:
    """Copy a database that may be in use; the target appears when it is whole."""
    if not source.exists():
        raise NotFound("database_file_missing", path=str(source))
    if target.exists() and not force:
        raise InvalidInput("backup_exists", path=str(target))
    partial = target.with_name(target.name + ".partial")
    try:
        _create_private(partial)
        with _in_our_words(source):
            _copy(source, partial, progress)
        copy = examine(partial)
        _flush(partial)
        os.replace(partial, target)
    except OSError as problem:
        raise _unwritable(target, problem) from problem
    finally:
        _remove(partial)
    return Copy(target, copy.bytes, copy.version, copy.rows)


def examine(path: Path) -> Copy:
    """Look through a file; whatever is not a whole database of ours is refused."""
    if not path.is_file():
        raise NotFound("backup_missing", path=str(path))
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidInput("backup_not_sqlite", path=str(path))
    try:
        with _connect(path) as connection:
            found = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
            if found != "ok":
                raise InvalidInput("backup_damaged", path=str(path), problem=str(found))
            version = _version(connection)
            rows = {name: _count(connection, name) for name in _tables(connection)} if version else {}
    except sqlite3.DatabaseError as problem:
        raise InvalidInput("backup_damaged", path=str(path), problem=str(problem)) from problem
    if version is None:
        raise InvalidInput("backup_not_ours", path=str(path))
    if version in REMOVED:
        raise SchemaMissing("backup_too_old", path=str(path), version=version, oldest=KNOWN[0])
    if version not in KNOWN:
        raise SchemaTooNew("backup_too_new", path=str(path), version=version, known=HEAD)
    return Copy(path, path.stat().st_size, version, rows)


# -- bringing one back -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marks:
    """The highest numbers that a database has handed out, and its lease line."""

    token: int = 0
    drawn: int = 0  # of a database of a cluster: the last value for a number of a job
    numbers: dict[str, int] = field(default_factory=dict)
    line: tuple[str, int] | None = None


def is_open_elsewhere(path: Path) -> bool:
    """Return whether any other connection, of whichever process, has the database open."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # refused while another process has it open
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError as problem:
            return "locked" in str(problem)
        except sqlite3.DatabaseError:
            return False  # damaged: no process can use it
    return False


def marks_of(path: Path) -> Marks | None:
    """Return what a database has handed out; None when it cannot be read any more."""
    try:
        with _connect(path) as connection:
            found = connection.execute(
                "SELECT max(coalesce((SELECT max(token) FROM horae_jobs), 0), "
                "coalesce((SELECT max(token) FROM horae_runs), 0))"
            ).fetchone()
            return Marks(int(found[0]), _drawn(connection), _numbers(connection), _line(connection))
    except sqlite3.DatabaseError:
        return None


def fence(copy: Path, live: Marks | None) -> int:
    """Make all issued tokens and job numbers invalid in this copy; return how many jobs were running in it.

    Their leases end at once, so that the next worker takes them over. The copy takes over the lease line of the
    database that it replaces, because processes that have that database open go on using it.
    """
    above = live or Marks()
    with _connect(copy) as connection, _transaction(connection):
        connection.execute("UPDATE horae_jobs SET token = token + ?", [above.token + JUMP])
        drawn = _numbers(connection)
        for table in {"horae_jobs", *drawn, *above.numbers}:
            jumped = max(drawn.get(table, 0), above.numbers.get(table, 0)) + JUMP
            connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", [table])
            connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [table, jumped])
        if above.drawn:
            connection.execute("UPDATE horae_cluster SET drawn = max(drawn, ?)", [above.drawn])
        connection.execute("DELETE FROM horae_nodes")
        if above.line is not None:
            line = "INSERT OR REPLACE INTO horae_lease_line (id, boot, began_at) VALUES (1, ?, ?)"
            connection.execute(line, above.line)
        running = connection.execute("UPDATE horae_jobs SET leased_until = ? WHERE state = 'running'", [LONG_AGO])
        return running.rowcount


def exchange(copy: Path, live: Path, progress: Progress | None = None) -> None:
    """Replace the database's pages with a copy's, in one transaction."""
    _equal_pages(copy, live)
    try:
        with _in_our_words(live):
            _copy(copy, live, progress, into_wal=True)
    except OSError as problem:
        raise _unwritable(live, problem) from problem


def set_aside(live: Path) -> None:
    """Move a database that cannot even be read out of the way, with everything beside it."""
    aside = free_name(live)
    for suffix in ("", *BESIDE):
        if live.with_name(live.name + suffix).exists():
            os.replace(live.with_name(live.name + suffix), aside.with_name(aside.name + suffix))


def free_name(live: Path) -> Path:
    """Return ``horae.db.before-restore``, with a number behind where that exists."""
    name = live.with_name(live.name + ".before-restore")
    number = 2
    while name.exists():
        name = live.with_name(f"{live.name}.before-restore.{number}")
        number += 1
    return name


# -- helpers -----------------------------------------------------------------------------------------------------------


def _copy(source: Path, target: Path, progress: Progress | None, *, into_wal: bool = False) -> None:
    with _connect(source) as reading, _connect(target) as writing:
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on the transaction sees one moment

        def report(_status: int, remaining: int, total: int) -> None:
            if progress is not None:
                progress(total - remaining, total)

        reading.backup(writing, pages=STEP, progress=report)
        reading.execute("ROLLBACK")
        if not into_wal:
            writing.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it


def _equal_pages(copy: Path, live: Path) -> None:
    """Rewrite a copy with another page size: a database in WAL mode keeps its own."""
    with _connect(copy) as theirs, _connect(live) as ours:
        wanted = ours.execute("PRAGMA page_size").fetchone()[0]
        if theirs.execute("PRAGMA page_size").fetchone()[0] != wanted:
            theirs.execute("PRAGMA journal_mode = DELETE")
            theirs.execute(f"PRAGMA page_size = {int(wanted)}")
            theirs.execute("VACUUM")


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        yield connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def _in_our_words(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as problem:
        if problem.sqlite_errorcode in NO_ROOM:
            raise StoreFull("backup_no_room", path=str(path)) from problem
        if "locked" in str(problem):
            raise StoreBusy("backup_locked", path=str(path)) from problem
        raise StoreUnavailable("backup_failed", path=str(path), problem=str(problem)) from problem


def _version(connection: sqlite3.Connection) -> str | None:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [VERSION_TABLE]).fetchone()
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() if known else None
    return None if row is None else str(row[0])


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'horae\\_%' ESCAPE '\\' ORDER BY name"
    )
    return [name for (name,) in found if name != VERSION_TABLE]


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def _line(connection: sqlite3.Connection) -> tuple[str, int] | None:
    """Read the lease line; None in a database of an earlier version."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'horae_lease_line'").fetchone() is None:
        return None
    row = connection.execute("SELECT boot, began_at FROM horae_lease_line").fetchone()
    return None if row is None else (str(row[0]), int(row[1]))


def _numbers(connection: sqlite3.Connection) -> dict[str, int]:
    found = connection.execute("SELECT name, seq FROM sqlite_sequence WHERE name LIKE 'horae\\_%' ESCAPE '\\'")
    return {name: int(number) for name, number in found}


def _drawn(connection: sqlite3.Connection) -> int:
    """Read what was drawn for jobs' numbers; 0 in a database that is in no cluster."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'horae_cluster'").fetchone() is None:
        return 0
    row = connection.execute("SELECT drawn FROM horae_cluster").fetchone()
    return 0 if row is None else int(row[0])


def _create_private(path: Path) -> None:
    _remove(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    for suffix in ("", "-journal", *BESIDE):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _unwritable(path: Path, problem: OSError) -> Exception:
    return InvalidInput("backup_unwritable", path=str(path), problem=str(problem.strerror))
