"""SQLite: one file, one writer at a time, group commit.

Inside a process all writes go through one lock, and enqueues that wait for it are written together by the thread that
gets it first. Between processes ``BEGIN IMMEDIATE`` and a busy timeout queue the writers up. Readers never block.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, make_url, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import QueuePool, StaticPool

from horae.core.jobs.job import NewJob
from horae.core.time.boots import Boot, LeaseLine
from horae.core.time.instants import instant, micros
from horae.core.timeouts import Timeouts
from horae.errors import SchemaMissing, StoreBusy, StoreError, StoreFull, StoreUnavailable
from horae.stores.databases.dialects import NO_ROOM, SQLITE
from horae.stores.databases.driver import Driver
from horae.stores.databases.group_commit import GroupCommit, Ticket, Turn
from horae.stores.databases.sqlite_inserts import insert_jobs, insert_one
from horae.stores.databases.sqlite_watch import Watch
from horae.stores.schema import create_all, migrate
from horae.stores.store import SqlStore, driver_error
from horae.stores.tables.jobs import completed, jobs

if TYPE_CHECKING:
    from horae.stores.databases.hot import Hot

BEGIN = "BEGIN IMMEDIATE"
BUSY_TIMEOUT_MS = 30_000
BUSY_PAUSE = 0.000_25  # seconds between two tries to begin: another process pauses about as long between two commits
CLOSE_PATIENCE = 2.0  # seconds
MAX_GROUP = 5_000
READ_LINE = text("SELECT boot, began_at FROM horae_lease_line")  # not by its table, which few commands need
DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}  # the first: another kind of file, in most cases
LONG_AGO = 1  # microseconds: the end of a lease of an earlier boot; 0 would look like no lease at all
_MAKING = threading.Lock()  # no thread connects to a new file before it is closed
Synchronous = Literal["FULL", "NORMAL", "EXTRA", "OFF"]


def prepare_sqlite(engine: Engine, synchronous: Synchronous = "FULL") -> Engine:
    """Set an application's own SQLite engine up so that it and Horae can write to one file side by side.

    WAL journal, a busy timeout, and ``BEGIN IMMEDIATE`` for transactions, so that a writer waits for its turn
    instead of failing halfway.
    """
    in_memory = _in_memory(engine)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun by the hook below, not by the driver's guess
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        if not in_memory:
            _switch_to_wal(cursor)
        cursor.execute(f"PRAGMA synchronous = {synchronous}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get("horae_reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _switch_to_wal(cursor: Any) -> None:
    """Switch to WAL, again where several processes open a new file at once: the switch does not wait."""
    patience = threading.Event()
    for tries_left in range(200, -1, -1):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as problem:
            if not tries_left or "locked" not in str(problem):
                raise
            patience.wait(0.02)


def _in_memory(engine: Engine) -> bool:
    database = engine.url.database
    return not database or database == ":memory:" or "mode=memory" in str(engine.url)


def create_sqlite_engine(url: str, synchronous: Synchronous = "FULL") -> Engine:
    parsed = make_url(url)
    in_memory = not parsed.database or parsed.database == ":memory:"
    pool: dict[str, Any] = {"poolclass": StaticPool} if in_memory else {"poolclass": QueuePool, "max_overflow": 20}
    engine = create_engine(parsed, connect_args={"check_same_thread": False}, **pool)
    if not in_memory and not str(parsed.database).startswith("file:"):
        _keep_private(engine, str(parsed.database))
    return prepare_sqlite(engine, synchronous)


def _keep_private(engine: Engine, path: str) -> None:
    """Make a new file readable for its owner alone, whatever the umask: payloads and audit are private.

    An existing file must not be opened here: closing it would drop every lock that this process's connections have on
    it, and the next process to close the database would delete their log.
    """

    @event.listens_for(engine, "do_connect")
    def make(*_: Any) -> None:
        _make_folder(Path(path).parent)
        with _MAKING, suppress(OSError):  # SQLite itself reports a path that cannot be used
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _make_folder(folder: Path) -> None:
    """Make the folder when the database is opened, not before: a mere question leaves nothing behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        description = problem.strerror or type(problem).__name__
        raise StoreUnavailable("folder_unmakable", folder=str(folder), problem=description) from problem


class SqliteStore(SqlStore):
    """The store of the first minute, and of everything that fits one machine."""

    def __init__(self, engine: Engine, timeouts: Timeouts | None = None) -> None:
        super().__init__(engine, SQLITE, timeouts)
        self.in_memory = _in_memory(engine)
        self._alone = Turn(self.timeouts.statement.total_seconds(), self._refuse_writer)
        self._hot_connection: Any = None
        self._group = GroupCommit(self._alone, self._write_group, most=MAX_GROUP, is_exclusive=True)
        self._watch: Watch | None = None
        self._pause = threading.Event()  # never set

    def make_hot(self) -> Hot:
        from horae.stores.databases.sqlite_hot import SqliteHot  # a list of jobs does not need it

        return SqliteHot(self.dialect)

    def open_schema(self) -> None:
        """Make the tables, or bring them up to date."""
        if self.in_memory:
            create_all(self.engine)
        else:
            self.run_with_retry(lambda: migrate(self.engine))

    # -- connections ---------------------------------------------------------------------------------------------

    def _refuse_writer(self, waits_for_itself: bool) -> StoreBusy:
        """Return why a thread may not write: it has a transaction open itself, or another thread does not end its."""
        if waits_for_itself:
            return StoreBusy("transaction_nested")
        return StoreBusy("transaction_waited", seconds=self.timeouts.statement.total_seconds())

    @contextmanager
    def open_driver(self) -> Iterator[Driver]:
        with self._alone:
            connection = self._hot()
            self._begin(connection)
            try:
                yield Driver(connection, self.dialect.placeholder)
                connection.execute("COMMIT")
            except BaseException:
                self._undo(connection)
                raise

    def _hot(self) -> sqlite3.Connection:
        if self._hot_connection is None:
            self._hot_connection = self.engine.raw_connection()
            if not self.in_memory:  # where threads share a connection, others count on its patience
                self._hot_connection.detach()
                self._hot_connection.dbapi_connection.execute("PRAGMA busy_timeout = 0")
        connection: sqlite3.Connection = self._hot_connection.dbapi_connection
        return connection

    def _begin(self, connection: sqlite3.Connection, sql: str = BEGIN, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute the first statement that writes; where another process writes, ask again several times a millisecond.

        SQLite's own patience pauses up to 100 ms between two tries: beside a process that commits again and again, a
        claim waited for seconds, hundreds of times as long as any of those commits took.
        """
        left = BUSY_TIMEOUT_MS / 1000
        while True:
            try:
                return connection.execute(sql, values)
            except sqlite3.OperationalError as problem:
                if left <= 0 or not is_busy(problem):
                    raise
            left -= BUSY_PAUSE
            self._pause.wait(BUSY_PAUSE)

    def _undo(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._alone, self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        if self.in_memory:
            with self.writing() as connection:
                yield connection
            return
        with self.engine.connect() as connection:
            connection = connection.execution_options(horae_reading=True)
            with connection.begin():
                yield connection

    # -- enqueue with group commit -------------------------------------------------------------------------------

    def insert_plain(self, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        ticket = Ticket(completed(jobs), now)
        self._group.submit(ticket)
        return ticket.result()

    def insert_plain_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[int | Exception]:
        tickets = [Ticket([job], now) for job, now in jobs]
        self._group.submit(*tickets)
        return [each.problem or each.result()[0] for each in tickets]

    def _write_group(self, group: list[Ticket]) -> None:
        """Write all in one transaction; where it fails, each in its own, so that one bad job fails alone."""
        connection = self._hot()
        if len(group) == 1 and len(group[0].jobs) == 1:
            self._write_one(connection, group[0])
            return
        try:
            self._begin(connection)
            driver = Driver(connection, self.dialect.placeholder)
            numbers = [self.add_plain(driver, ticket.jobs, ticket.now) for ticket in group]
            connection.execute("COMMIT")
        except BaseException as problem:
            self._undo(connection)
            if not isinstance(problem, Exception):
                raise
            if len(group) == 1:
                group[0].problem = self.translate_error(problem)
            else:
                for ticket in group:
                    self._write_group([ticket])
            return
        for ticket, placed in zip(group, numbers, strict=True):
            ticket.numbers = placed

    def _write_one(self, connection: sqlite3.Connection, ticket: Ticket) -> None:
        """Write one job by a statement that is its own transaction."""
        try:
            ticket.numbers = [int(self._begin(connection, *insert_one(ticket.jobs[0], ticket.now)).lastrowid or 0)]
        except Exception as problem:
            ticket.problem = self.translate_error(problem)

    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        return insert_jobs(driver, jobs, now)

    # -- the line of leases --------------------------------------------------------------------------------------

    def lease_line(self, boot: Boot, *, now: datetime, fix: bool = True) -> LeaseLine | None:
        """Return the stored start of this boot; the first process of a boot stores it."""
        began = now - boot.uptime
        if self.in_memory or not boot.name:
            return LeaseLine(began)
        found = self.read(lambda tx: tx.connection.execute(READ_LINE).first())
        if found is not None and found.boot == boot.name:
            return LeaseLine(instant(found.began_at))
        stored = self._fix_at_once(boot, began) if fix else None
        return LeaseLine(began, is_stored=False) if stored is None else LeaseLine(stored)

    def _fix_at_once(self, boot: Boot, began: datetime) -> datetime | None:
        """Store the start of this boot without waiting for a writer, which may be the caller's own transaction."""
        if not self._alone.take_at_once():
            return None
        try:
            with self.engine.connect() as connection:
                driver: Any = connection.connection.driver_connection
                driver.execute("PRAGMA busy_timeout = 0")
                try:
                    with connection.begin():
                        return _fix_line(connection, boot, began)
                finally:
                    driver.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        except OperationalError as problem:
            if isinstance(self.translate_error(driver_error(problem)), StoreBusy):
                return None
            raise
        finally:
            self._alone.give_back()

    # -- errors --------------------------------------------------------------------------------------------------

    def translate_error(self, problem: Exception, *, sent: bool = True) -> Exception:
        if not isinstance(problem, sqlite3.Error):
            return problem
        text = str(problem)
        if is_busy(problem):
            return StoreBusy("sqlite_locked")
        if getattr(problem, "sqlite_errorcode", None) in NO_ROOM:
            return StoreFull("database_full", product="SQLite", problem=f"{text}.")
        if "no such table" in text or "no such column" in text:
            return SchemaMissing("tables_missing", problem=text)
        if isinstance(problem, sqlite3.OperationalError):
            return StoreUnavailable("sqlite_unusable", problem=text)
        if getattr(problem, "sqlite_errorcode", None) in DAMAGED:
            file = self.engine.url.database
            return StoreError("sqlite_damaged", path=str(file), problem=text)
        return StoreError("database_refused", product="SQLite", problem=f"{text}.")

    def may_retry(self, problem: Exception) -> bool:
        return False

    # -- wake-ups ------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(listener)
        if self._watch is None and not self.in_memory:
            self._watch = Watch(self)
            self._watch.start()
        return unsubscribe

    def close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if not self._alone.take(CLOSE_PATIENCE):  # a transaction that never ends must not keep a process alive
            if not self.in_memory:  # where threads share a connection, closing it under one that uses it is a crash
                super().close()
            return
        try:
            if self._hot_connection is not None:
                self._hot_connection.close()
                self._hot_connection = None
            super().close()
        finally:
            self._alone.give_back()


def is_busy(problem: sqlite3.Error) -> bool:
    """Return whether another connection keeps this one from going on."""
    return "locked" in str(problem) or "busy" in str(problem)


def _fix_line(connection: Connection, boot: Boot, began: datetime) -> datetime:
    """Store the start of this boot unless another process has, and end all leases of the previous boot."""
    from horae.stores.tables.chores import chores, lease_line

    found = connection.execute(READ_LINE).first()
    if found is not None and found.boot == boot.name:
        return instant(found.began_at)
    if found is not None:
        from horae.stores.tables.attention import lanes
        from horae.stores.tables.locks import locks

        connection.execute(update(jobs).where(jobs.c.state == "running").values(leased_until=LONG_AGO))
        connection.execute(update(lanes).where(lanes.c.leased_until.is_not(None)).values(leased_until=LONG_AGO))
        connection.execute(update(locks).values(expires_at=LONG_AGO))
        connection.execute(update(chores).values(due_at=LONG_AGO, leased_until=0))
        connection.execute(delete(lease_line))
    connection.execute(insert(lease_line).values(id=1, boot=boot.name, began_at=micros(began)))
    return began
