"""SQLite: one file, one writer at a time, group commit.

Inside a process all writes go through one lock, and enqueues that wait for it are written together by the thread that
gets it first. Between processes ``BEGIN IMMEDIATE`` and a busy timeout queue the writers up. Readers never block.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, make_url, select, update
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from horae.core.jobs.job import NewJob
from horae.core.time.boots import Boot, LeaseLine
from horae.core.time.instants import instant, micros
from horae.core.timeouts import Timeouts
from horae.errors import SchemaMissing, StoreBusy, StoreError, StoreFull, StoreUnavailable
from horae.stores.databases.dialects import NO_ROOM, SQLITE
from horae.stores.databases.driver import Driver, marks
from horae.stores.store import SqlStore, driver_error
from horae.stores.tables.chores import chores, lease_line
from horae.stores.tables.jobs import INSERT_COLUMNS, jobs, new_job_row

BUSY_TIMEOUT_MS = 30_000
CLOSE_PATIENCE = 2.0  # seconds
WATCH_EVERY = 0.05
WATCH_AGAIN = 1.0  # seconds until a watch that failed begins anew
MAX_GROUP = 5_000
INSERT = f"INSERT INTO horae_jobs ({', '.join(INSERT_COLUMNS)}) VALUES ({marks(len(INSERT_COLUMNS))})"
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


class _Ticket:
    """One enqueue waiting to be written together with others."""

    __slots__ = ("jobs", "now", "numbers", "problem")

    def __init__(self, jobs: Sequence[NewJob], now: datetime) -> None:
        self.jobs = jobs
        self.now = now
        self.numbers: list[int] | None = None
        self.problem: Exception | None = None

    def is_written(self) -> bool:
        return self.numbers is not None or self.problem is not None


class SqliteStore(SqlStore):
    """The store of the first minute, and of everything that fits one machine."""

    def __init__(self, engine: Engine, timeouts: Timeouts | None = None) -> None:
        super().__init__(engine, SQLITE, timeouts)
        self.in_memory = _in_memory(engine)
        self._lock = threading.Lock()
        self._writer: int | None = None
        self._hot_connection: Any = None
        self._waiting: deque[_Ticket] = deque()
        self._watch: _Watch | None = None

    # -- connections ---------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the process's write lock; refuse a thread that already holds it, as it would wait for itself."""
        me = threading.get_ident()
        if self._writer == me:
            raise StoreBusy("transaction_nested")
        patience = self.timeouts.statement.total_seconds()
        if not self._lock.acquire(timeout=patience):
            raise StoreBusy("transaction_waited", seconds=patience)
        self._writer = me
        try:
            yield
        finally:
            self._writer = None
            self._lock.release()

    @contextmanager
    def open_driver(self) -> Iterator[Driver]:
        with self._alone():
            connection = self._hot()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Driver(connection, self.dialect.placeholder)
                connection.execute("COMMIT")
            except BaseException:
                self._undo(connection)
                raise

    def _hot(self) -> sqlite3.Connection:
        if self._hot_connection is None:
            self._hot_connection = self.engine.raw_connection()
        connection: sqlite3.Connection = self._hot_connection.driver_connection
        return connection

    def _undo(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._alone(), self.engine.connect() as connection, connection.begin():
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
        ticket = _Ticket(jobs, now)
        self._waiting.append(ticket)
        self.run_with_retry(lambda: self._write_waiting(ticket))
        if ticket.problem is not None:
            raise ticket.problem
        assert ticket.numbers is not None
        return ticket.numbers

    def _write_waiting(self, ticket: _Ticket) -> None:
        """Write this ticket and those waiting behind it in one transaction, unless another thread already has."""
        while not ticket.is_written():
            try:
                with self._alone():
                    if not ticket.is_written():
                        self._write_group(self._next_group(ticket))
            except StoreBusy:
                try:
                    self._waiting.remove(ticket)
                except ValueError:
                    continue  # another thread is writing it right now and will set its result
                raise

    def _next_group(self, ticket: _Ticket) -> list[_Ticket]:
        group, size = [ticket], len(ticket.jobs)
        with suppress(ValueError):
            self._waiting.remove(ticket)
        while self._waiting and size < MAX_GROUP:
            other = self._waiting.popleft()
            group.append(other)
            size += len(other.jobs)
        return group

    def _write_group(self, group: list[_Ticket]) -> None:
        """Write all in one transaction; where it fails, each in its own, so that one bad job fails alone."""
        connection = self._hot()
        try:
            connection.execute("BEGIN IMMEDIATE")
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

    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        driver.many(INSERT, [new_job_row(job, now) for job in jobs])
        [(last,)] = driver.rows("SELECT last_insert_rowid()")  # the only writer draws consecutive numbers
        return list(range(last - len(jobs) + 1, last + 1))

    # -- the line of leases --------------------------------------------------------------------------------------

    def lease_line(self, boot: Boot, *, now: datetime, fix: bool = True) -> LeaseLine | None:
        """Return the stored start of this boot; the first process of a boot stores it."""
        began = now - boot.uptime
        if self.in_memory or not boot.name:
            return LeaseLine(began)
        found = self.read(lambda tx: tx.connection.execute(select(lease_line)).first())
        if found is not None and found.boot == boot.name:
            return LeaseLine(instant(found.began_at))
        stored = self._fix_at_once(boot, began) if fix else None
        return LeaseLine(began, is_stored=False) if stored is None else LeaseLine(stored)

    def _fix_at_once(self, boot: Boot, began: datetime) -> datetime | None:
        """Store the start of this boot without waiting for a writer, which may be the caller's own transaction."""
        if not self._lock.acquire(blocking=False):
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
            self._lock.release()

    # -- errors --------------------------------------------------------------------------------------------------

    def translate_error(self, problem: Exception, *, sent: bool = True) -> Exception:
        if not isinstance(problem, sqlite3.Error):
            return problem
        text = str(problem)
        if "locked" in text or "busy" in text:
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
            self._watch = _Watch(self)
            self._watch.start()
        return unsubscribe

    def close(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        if not self._lock.acquire(
            timeout=CLOSE_PATIENCE
        ):  # a transaction that never ends must not keep a process alive
            if not self.in_memory:  # where threads share a connection, closing it under one that uses it is a crash
                super().close()
            return
        try:
            if self._hot_connection is not None:
                self._hot_connection.close()
                self._hot_connection = None
            super().close()
        finally:
            self._lock.release()


def _fix_line(connection: Connection, boot: Boot, began: datetime) -> datetime:
    """Store the start of this boot unless another process has, and end all leases of the previous boot."""
    found = connection.execute(select(lease_line)).first()
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


class _Watch(threading.Thread):
    """Notices commits of other processes: reads a counter in shared memory, twenty times a second."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(name="horae-sqlite-watch", daemon=True)
        self._store = store
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            with suppress(sqlite3.Error, SQLAlchemyError):  # an error of the disk; writers will report it
                self._look_on()
            self._ended.wait(WATCH_AGAIN)

    def _look_on(self) -> None:
        with self._store.engine.connect() as connection:
            cursor = connection.connection.cursor()
            seen = None
            while not self._ended.wait(WATCH_EVERY):
                version = cursor.execute("PRAGMA data_version").fetchone()[0]
                if version != seen:  # the first reading too: a commit may have come before the watch
                    self._store.tell_listeners("*")
                seen = version

    def stop(self) -> None:
        self._ended.set()
        self.join(timeout=5)
