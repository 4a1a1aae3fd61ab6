"""MariaDB 10.6 and later (and MySQL 8's common subset): select with SKIP LOCKED, update by key, commit.

There is no NOTIFY; sleeping workers of other processes look often instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pymysql
from pymysql.constants import ER
from sqlalchemy import Column, Connection, Engine, event
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from horae.core.jobs.job import NewJob, Settlement
from horae.core.partitions import Partition
from horae.core.time.instants import micros
from horae.core.timeouts import Timeouts, client_limit
from horae.errors import SchemaMissing, StoreBusy, StoreError, StoreFull
from horae.ports.chores import PartitionChange
from horae.stores.databases.dialects import MYSQL
from horae.stores.databases.driver import Driver, marks
from horae.stores.databases.hot import Hot
from horae.stores.databases.mysql_connections import BoundedConnection
from horae.stores.partitions import FIRES, PARTITIONED_BY, Partitions
from horae.stores.schedules.fires import MOVED, Firings
from horae.stores.schema import lift_timeouts
from horae.stores.store import SqlStore, T, driver_error, unavailable
from horae.stores.tables.jobs import ATTEMPT, ENDING, INSERT_COLUMNS, SNAPSHOT, ending_row, new_job_row, runs
from horae.stores.tables.jobs import jobs as job_table
from horae.stores.tables.schedules import schedules
from horae.stores.transaction import Transaction

RETRIED = {ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT}
GONE = {2003, 2006, 2013, 2055, 1053, 1152, 1158, 1159, 1160, 1161, 1205, 4031}
DISK_FULL = {1021, 1114}
TOOK_TOO_LONG = {1969}  # longer than max_statement_time: the server stopped it itself
DENIED = {1044, 1142, 1143, 1227}
DONE_BEFORE = {1493, 1507, 1517}  # bounds not increasing, no such partition, a partition of that name
LOCK_PATIENCE, MANY_SECONDS = 1, 86_400  # of a change of partitions: a settle that comes after it waits as long
COPIED_AT_MOST = 100_000  # rows; so many are copied in about a second
INSERT_HEAD = f"INSERT INTO horae_jobs ({', '.join(INSERT_COLUMNS)}) VALUES "


def _paths(columns: Iterable[Column[Any]]) -> str:
    """Return the columns of a JSON_TABLE over lists of their values, in this order."""
    kinds = ((column.name, column.type.compile(dialect=mysql.dialect())) for column in columns)
    return ", ".join(f"{name} {kind} PATH '$[{index}]'" for index, (name, kind) in enumerate(kinds))


_ENDED = _paths([job_table.c.id, *(runs.c[name] for name in (*ENDING, "state"))])


def _write_run(final: bool) -> str:
    names = ("job_id", "token", *ATTEMPT, *ENDING, "state", "finished_at", *(SNAPSHOT if final else ()))
    source = [
        "j.id",
        "j.token",
        *(f"j.{name}" for name in ATTEMPT),
        *(f"e.{name}" for name in (*ENDING, "state")),
        "%s",
    ]
    source += [f"j.{name}" for name in SNAPSHOT] if final else []
    return (
        f"INSERT INTO horae_runs ({', '.join(names)}) SELECT {', '.join(source)} "
        f"FROM horae_jobs j JOIN JSON_TABLE(%s, '$[*]' COLUMNS ({_ENDED})) e ON j.id = e.id"
    )


PRESENT = "READ COMMITTED"
WRITE_RUN = {final: _write_run(final) for final in (True, False)}


def _packets(texts: Sequence[str], most: int = 4_000_000) -> Iterator[list[str]]:
    """Split endings into portions that fit the server's largest packet (16 MB unless configured)."""
    packet: list[str] = []
    for text in texts:
        if packet and sum(map(len, packet)) + len(text) > most:
            yield packet
            packet = []
        packet.append(text)
    if packet:
        yield packet


class MysqlHot(Hot):
    """The flows whose steps MariaDB can do in one statement for many rows."""

    def write_runs(self, driver: Driver, settlements: Sequence[Settlement], now: datetime, *, final: bool) -> None:
        rows = [json.dumps([s.number, *ending_row(s), s.change.state if final else None]) for s in settlements]
        for chunk in _packets(rows):
            driver.change(WRITE_RUN[final], [micros(now), f"[{','.join(chunk)}]"])


_MOVED = _paths(schedules.c[name] for name in (*MOVED, "id"))
MOVE = (
    f"UPDATE horae_schedules s JOIN JSON_TABLE(%s, '$[*]' COLUMNS ({_MOVED})) m ON s.id = m.id "
    f"SET {', '.join(f's.{name} = m.{name}' for name in MOVED)}"
)


class MysqlFirings(Firings):
    """Many schedules moved in one statement."""

    def move(self, driver: Driver, rows: Sequence[tuple[Any, ...]]) -> None:
        driver.change(MOVE, [json.dumps(rows)])


def _see_the_present(connection: Any, _: Any) -> None:
    """Let a connection of a caller's own engine see what others have committed, once it has their lock.

    MariaDB's default, REPEATABLE READ, would go on showing the past, in which a full limit has room.
    """
    if not isinstance(connection, BoundedConnection):
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {PRESENT}")


def alter_partitions(
    connection: Connection, change: PartitionChange, partition: Partition, *, patient: bool = False
) -> bool:
    """Add, split off or drop a partition on one connection; False where another process has done it already.

    To add one is to split the catch-all, whose rows the server copies. ``old`` must go on taking old fires: a day that
    is dropped is emptied and merged into it, which copies what ``old`` holds, so that there must not be much of it.
    """
    run, table, name = connection.exec_driver_sql, partition.table, partition.name
    assert partition.high is not None
    high = micros(partition.high)
    verb = "drop" if change == "drop" else "add"
    if verb == "drop" and table == FIRES and _is_lowest(connection, partition):
        if _rows_of_old(connection, table) > COPIED_AT_MOST:
            return False
        verb = "merge"
    added = f"PARTITION {name} VALUES LESS THAN ({high}), PARTITION p_rest VALUES LESS THAN MAXVALUE"
    statements = {
        "add": [f"REORGANIZE PARTITION p_rest INTO ({added})"],
        "drop": [f"DROP PARTITION {name}"],
        "merge": [
            f"TRUNCATE PARTITION {name}",
            f"REORGANIZE PARTITION p_old, {name} INTO (PARTITION p_old VALUES LESS THAN ({high}))",
        ],
    }
    try:
        try:
            for statement in statements[verb]:
                run(f"ALTER TABLE {table} {statement}")
        except DBAPIError as problem:
            if _number(problem) not in DENIED:
                raise
            patience = MANY_SECONDS if patient else LOCK_PATIENCE
            run("CALL horae_partition(%s, %s, %s, 0, %s, %s)", (verb, table, name, high, patience))
    except DBAPIError as problem:
        if _number(problem) in DONE_BEFORE:
            return False
        raise
    if verb != "add":
        run("DELETE FROM horae_counted_partitions WHERE table_name = %s AND name = %s", (table, name))
        connection.commit()
    return True


def has_aside(connection: Connection, table: str) -> bool:
    """Return whether rows of a table may lie aside."""
    known = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s"
    return connection.exec_driver_sql(known, (f"{table}_aside",)).first() is not None


def set_aside(connection: Connection, table: str) -> bool:
    """Exchange the catch-all with an empty table; False while rows lie aside already, or where a role may not."""
    run, aside = connection.exec_driver_sql, f"{table}_aside"
    try:
        run(f"CREATE TABLE IF NOT EXISTS {aside} LIKE {table}")
        if Partitions(connection).is_partitioned(aside):  # new, or a process died here
            run(f"ALTER TABLE {aside} REMOVE PARTITIONING")
        if run(f"SELECT 1 FROM {aside} LIMIT 1").first() is not None:
            return False
        run(f"ALTER TABLE {table} EXCHANGE PARTITION p_rest WITH TABLE {aside}")
    except DBAPIError as problem:
        if _number(problem) in DENIED:
            return False
        raise
    return True


def return_rows(connection: Connection, table: str, limit: int) -> int:
    """Bring back rows that lie aside, the last first: some more than *limit* where many have one instant."""
    run, aside, by = connection.exec_driver_sql, f"{table}_aside", PARTITIONED_BY[table].name
    last = f"SELECT {by} FROM {aside} ORDER BY {by} DESC LIMIT 1 OFFSET {limit - 1}"
    since = run(last).scalar()
    which = "" if since is None else f" WHERE {by} >= {int(since)}"
    run(f"INSERT IGNORE INTO {table} SELECT * FROM {aside}{which}")  # a process that died, or another, may have begun
    return run(f"DELETE FROM {aside}{which}").rowcount


def drop_aside(connection: Connection, table: str) -> None:
    """Drop the table for rows that lie aside, if it is empty. Under its lock, or rows set aside meanwhile would go."""
    run = connection.exec_driver_sql
    if has_aside(connection, table) and run(f"SELECT 1 FROM {table}_aside LIMIT 1").first() is None:
        run(f"DROP TABLE {table}_aside")


def _is_lowest(connection: Connection, partition: Partition) -> bool:
    """Return whether a partition follows ``old``."""
    found = Partitions(connection).all(partition.table)
    return len(found) > 1 and found[1].name == partition.name


def _rows_of_old(connection: Connection, table: str) -> int:
    some = f"SELECT 1 FROM {table} PARTITION (p_old) LIMIT {COPIED_AT_MOST + 1}"
    return int(connection.exec_driver_sql(f"SELECT COUNT(*) FROM ({some}) x").scalar_one())


def _number(problem: DBAPIError) -> int | None:
    cause = driver_error(problem)
    return cause.args[0] if cause.args else None


class MysqlStore(SqlStore):
    """MariaDB, shared by many hosts."""

    def __init__(self, engine: Engine, timeouts: Timeouts | None = None) -> None:
        super().__init__(engine, MYSQL, timeouts)
        self._hot_pool = engine.pool.recreate()  # lent connections can use up the engine's pool, not this one
        event.listen(self._hot_pool, "connect", _see_the_present)

    def make_hot(self) -> Hot:
        return MysqlHot(self.dialect)

    def make_firings(self) -> Firings:
        return MysqlFirings(self.hot, self._add_in_chunks)

    @contextmanager
    def open_driver(self) -> Iterator[Driver]:
        pooled = self.acquire(self._hot_pool.connect)
        self.limit(pooled.driver_connection, self.timeouts.hot)
        try:
            yield Driver(pooled.driver_connection)
            pooled.commit()
        except BaseException:
            pooled.invalidate()
            raise
        pooled.close()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.acquire(self.engine.connect) as connection:
            if not isinstance(connection.connection.driver_connection, BoundedConnection):
                connection = connection.execution_options(isolation_level=PRESENT)
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read in REPEATABLE READ; the extra statement replaces the COMMIT, because closing rolls back anyway."""
        with self.acquire(self.engine.connect) as connection:
            with closing(connection.connection.cursor()) as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    def read_uncommitted(self, work: Callable[[Transaction], T]) -> T | None:
        def attempt() -> T:
            with self.acquire(self.engine.connect) as connection:
                with closing(connection.connection.cursor()) as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED, READ ONLY")
                return work(Transaction(connection))

        return self.run_with_retry(attempt, self.timeouts.statement, sent=False)

    def limit(self, connection: Any, limit: timedelta | None) -> None:
        if isinstance(connection, BoundedConnection):  # leave connections of a caller's own engine alone
            connection.limit = client_limit(limit)

    @contextmanager
    def lend(self, connection: Connection, limit: timedelta | None) -> Iterator[None]:
        driver = connection.connection.driver_connection
        if not isinstance(driver, BoundedConnection):
            yield
            return
        before, driver.limit = driver.limit, client_limit(limit)
        self._bound_statements(driver, limit)
        try:
            yield
        finally:
            driver.limit = before
            with suppress(pymysql.MySQLError):  # the connection is gone, and its settings with it
                self._bound_statements(driver, self.timeouts.statement)

    def _bound_statements(self, driver: BoundedConnection, limit: timedelta | None) -> None:
        seconds = 0.0 if limit is None else limit.total_seconds()
        with driver.cursor() as cursor:
            cursor.execute(f"SET @horae = 0/*M!100100 , SESSION max_statement_time = {seconds:g} */")

    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        rows = [new_job_row(job, now) for job in jobs]
        row = f"({marks(len(INSERT_COLUMNS))})"
        returns = bool(getattr(self.engine.dialect, "is_mariadb", False))  # with `mysql:` known only once connected
        sql = INSERT_HEAD + ", ".join([row] * len(rows)) + (" RETURNING id" if returns else "")
        cursor = driver.connection.cursor()
        cursor.execute(sql, [value for values in rows for value in values])
        answer, first = [found[0] for found in cursor.fetchall()] if returns else [], int(cursor.lastrowid or 0)
        cursor.close()
        # Without RETURNING: a multi-row INSERT … VALUES draws evenly spaced numbers, one apart on a single server.
        step = 1 if answer or len(rows) == 1 else int(driver.rows("SELECT @@auto_increment_increment")[0][0])
        return answer or list(range(first, first + len(rows) * step, step))

    def hears(self) -> bool:
        return False

    # -- partitions ----------------------------------------------------------------------------------------------

    def alter_partitions(self, change: PartitionChange, partition: Partition, *, patient: bool = False) -> bool:
        """Alter the table; a role that may not calls the procedure of the migration, if it may do that."""

        def attempt() -> bool:
            with self.acquire(self.engine.connect) as connection:
                if patient:
                    with lift_timeouts(connection):
                        return alter_partitions(connection, change, partition, patient=True)
                connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {LOCK_PATIENCE}")
                try:
                    return alter_partitions(connection, change, partition)
                finally:
                    if not connection.invalidated:
                        connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")

        return self.run_with_retry(attempt, timedelta(0))

    def empty_catch_all(self, partition: Partition) -> bool:
        """Exchange the catch-all with an empty table, and give the partition to what is left: no row is copied.

        Only ``return_aside`` shows the rows again. A process that dies in between leaves that to the next.
        """

        def attempt() -> bool:
            with self._aside_locked() as connection:
                return connection is not None and set_aside(connection, partition.table)

        return self.run_with_retry(attempt, timedelta(0)) and self.alter_partitions("split", partition)

    def return_aside(self, table: str, limit: int) -> int:
        def step() -> int | None:
            with self.writing() as connection:
                return return_rows(connection, table, limit) if has_aside(connection, table) else None

        def finish() -> None:
            with self._aside_locked() as connection:
                if connection is not None:
                    drop_aside(connection, table)

        returned = self.run_with_retry(step)
        if returned == 0:
            self.run_with_retry(finish, timedelta(0))
        return returned or 0

    @contextmanager
    def _aside_locked(self) -> Iterator[Connection | None]:
        """Lend a connection that waits for a table a second at most, to one process at a time; None to another."""
        with self.acquire(self.engine.connect) as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")  # in a transaction an exchange waits for itself
            connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {LOCK_PATIENCE}")
            mine = connection.exec_driver_sql("SELECT GET_LOCK(CONCAT('horae aside ', DATABASE()), 0)").scalar() == 1
            try:
                yield connection if mine else None
            finally:
                if not connection.invalidated:
                    connection.exec_driver_sql("DO RELEASE_LOCK(CONCAT('horae aside ', DATABASE()))")
                    connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")

    def translate_error(self, problem: Exception, *, sent: bool = True) -> Exception:
        if not isinstance(problem, pymysql.MySQLError):
            return problem
        number = problem.args[0] if problem.args else None
        text = str(problem.args[-1]) if problem.args else type(problem).__name__
        if number in (ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR):
            return SchemaMissing("tables_missing", problem=text)
        if number in RETRIED:
            return StoreBusy("database_contended", product="MariaDB")
        if number in TOOK_TOO_LONG:
            return StoreBusy("database_gave_up", product="MariaDB", problem=f"{text}.")
        if number in DISK_FULL:
            return StoreFull("database_full", product="MariaDB", problem=f"{text}.")
        if number in GONE or isinstance(problem, pymysql.OperationalError | pymysql.InterfaceError):
            return unavailable("MariaDB", f"{text}.", sent=sent)
        return StoreError("database_refused", product="MariaDB", problem=f"{text}.")

    def may_retry(self, problem: Exception) -> bool:
        return isinstance(problem, pymysql.MySQLError) and bool(problem.args) and problem.args[0] in RETRIED

    def is_lock_timeout(self, problem: Exception) -> bool:
        return bool(problem.args) and problem.args[0] == ER.LOCK_WAIT_TIMEOUT

    def close(self) -> None:
        self._hot_pool.dispose()
        super().close()
