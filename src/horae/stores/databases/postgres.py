"""PostgreSQL: claims with SKIP LOCKED and fenced endings in one round trip each, wake-ups by NOTIFY."""

# size: every statement that only PostgreSQL can do in one, in one place

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg
from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.job import Job, NewJob, Settlement
from horae.core.partitions import Partition
from horae.core.time.instants import instant, micros
from horae.core.timeouts import Timeouts, client_limit, milliseconds
from horae.errors import SchemaMissing, StoreBusy, StoreError, StoreFull
from horae.ports.chores import PartitionChange
from horae.ports.claims import Claim
from horae.ports.workers import Node, Upcoming
from horae.stores.databases.arrays import arrays
from horae.stores.databases.bulk import type_of, unnested
from horae.stores.databases.dialects import POSTGRES
from horae.stores.databases.driver import Driver, marks
from horae.stores.databases.group_commit import GroupCommit, Ticket, Turn
from horae.stores.databases.hot import BEATEN, Hot
from horae.stores.databases.notify import CHANNEL, Notifier
from horae.stores.databases.postgres_claims import Claims, in_order, read_again
from horae.stores.databases.postgres_connections import BoundedConnection, hot_session, readable, took_too_long
from horae.stores.databases.postgres_endings import finish, write_runs
from horae.stores.jobs.claimed import Row
from horae.stores.jobs.endings import is_plain_ending
from horae.stores.jobs.fair import QueueTurns, first_part, turn_size
from horae.stores.jobs.hints import Hints
from horae.stores.schedules.fires import LIVE_JOBS, MOVED, Firings
from horae.stores.store import SqlStore, T, is_refusal, unavailable
from horae.stores.tables.jobs import (
    INSERT_COLUMNS,
    given_values,
    job_chunks,
    new_job_row,
    shared_row,
)
from horae.stores.tables.jobs import jobs as job_table
from horae.stores.tables.queues import NODES
from horae.stores.tables.schedules import FIRE_COLUMNS, fires, schedules

RETRIED = (pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
MAX_SPARE = 16
MOST_TOGETHER = 200  # enqueues that share a commit
TURN_PATIENCE = 0.05  # seconds that an enqueue waits for the commit of others before it is sent by itself
INSERT_CHUNK = 1_000  # jobs of a bulk enqueue that the server stores while the next are written
LOCK_PATIENCE = timedelta(seconds=1)  # of a change of partitions: a settle that comes after it waits as long
PARTITION_PATIENCE = 3 * LOCK_PATIENCE


@lru_cache(maxsize=256)
def _insert_given(given: tuple[str, ...]) -> str:
    """Return the SQL that inserts one job of which only what has no default is given."""
    values = "".join(f"${number}, " for number in range(1, len(given) + 1))
    return f"INSERT INTO horae_jobs ({', '.join(given)}, state) VALUES ({values}'queued') RETURNING id"


INSERT_MANY = (
    f"INSERT INTO horae_jobs ({', '.join(INSERT_COLUMNS)}) "
    f"SELECT * FROM unnest({unnested(job_table, INSERT_COLUMNS)}) RETURNING id"
)


@lru_cache(maxsize=64)
def _insert_alike(given: tuple[str, ...]) -> str:
    """Return the SQL that inserts a job for each payload; what they share is given once, and NULL not at all."""
    values = ", ".join(f"%s::{type_of(job_table.c[name])}" for name in given)
    return (
        f"INSERT INTO horae_jobs ({', '.join(given)}, payload) "
        f"SELECT {values}, payload FROM unnest(%s::json[]) AS given (payload) RETURNING id"
    )


def _insertion(jobs: Sequence[NewJob], now: datetime) -> tuple[str, list[Any]]:
    if type(jobs) is not AlikeJobs:
        return INSERT_MANY, arrays(new_job_row(job, now) for job in jobs)
    shared = shared_row(jobs.shared, now)
    return _insert_alike(tuple(shared)), [*shared.values(), *arrays(zip(jobs.payloads, strict=True))]


def _insert_group(connection: psycopg.Connection[Any], group: Sequence[Ticket]) -> list[int]:
    """Insert the job of each ticket; return their numbers, in order."""
    if len(group) == 1 and isinstance(connection, BoundedConnection):
        given, values = given_values(group[0].jobs[0], group[0].now)
        return [int(connection.execute_prepared(_insert_given(given), values).get_value(0, 0) or 0)]
    rows = arrays(new_job_row(each.jobs[0], each.now) for each in group)
    return _drawn([connection.execute(INSERT_MANY, rows, prepare=True)])


def _drawn(cursors: Iterable[psycopg.Cursor[Any]]) -> list[int]:
    """Return the numbers of the jobs that were inserted; they are drawn in the order of the rows."""
    return sorted(number for cursor in cursors for (number,) in cursor.fetchall())


class PostgresHot(Hot):
    """The flows whose steps PostgreSQL can do in one statement for many rows."""

    def write_runs(self, driver: Driver, settlements: Sequence[Settlement], now: datetime, *, final: bool) -> None:
        if settlements:
            driver.change(*write_runs(settlements, now, final=final))

    def beat(self, driver: Driver, node: Node) -> tuple[str, list[Any]]:
        row = NODES.row(node)
        kept = f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in BEATEN)}"
        insert = f"INSERT INTO horae_nodes ({', '.join(row)}) VALUES ({marks(len(row))}) {kept}"
        return f"WITH beat AS ({insert}) ", list(row.values())


RECORD = f"INSERT INTO horae_fires ({', '.join(FIRE_COLUMNS)}) SELECT * FROM unnest({unnested(fires, FIRE_COLUMNS)})"
RECORDED = (
    "SELECT e.schedule_id, e.fire_at FROM unnest(%s::bigint[], %s::bigint[]) AS e (schedule_id, fire_at) CROSS JOIN "
    "LATERAL (SELECT 1 FROM horae_fires f WHERE f.schedule_id = e.schedule_id AND f.kind = 'schedule' "
    "AND f.fire_at = e.fire_at OFFSET 0) found"
)
MOVE = (
    f"UPDATE horae_schedules s SET {', '.join(f'{name} = m.{name}' for name in MOVED)} "
    f"FROM unnest({unnested(schedules, (*MOVED, 'id'))}) AS m ({', '.join(MOVED)}, id) WHERE s.id = m.id"
)


class PostgresFirings(Firings):
    """Each step in one statement that is the same for any number of fires, so that the server plans it once."""

    def live(self, driver: Driver, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        return driver.rows(f"{LIVE_JOBS} AND schedule_id = ANY(%s::bigint[])", [list(numbers)])

    def find_recorded(self, driver: Driver, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        return set(driver.rows(RECORDED, arrays(pairs)))

    def find_followed(self, driver: Driver, numbers: Sequence[int]) -> set[int]:
        sql = "SELECT DISTINCT followed_id FROM horae_follows WHERE followed_id = ANY(%s::bigint[])"
        return {row[0] for row in driver.rows(sql, [list(numbers)])}

    def record(self, driver: Driver, rows: Sequence[Sequence[Any]]) -> None:
        driver.change(RECORD, arrays(rows))

    def move(self, driver: Driver, rows: Sequence[tuple[Any, ...]]) -> None:
        driver.change(MOVE, arrays(rows))


class PostgresStore(SqlStore):
    """The store for many hosts."""

    def __init__(self, engine: Engine, timeouts: Timeouts | None = None) -> None:
        super().__init__(engine, POSTGRES, timeouts)
        self.insert_chunk = INSERT_CHUNK
        self._hot_pool = engine.pool.recreate()  # lent connections can use up the engine's pool, not this one
        self._spare: list[psycopg.Connection[Any]] = []
        turn = Turn(TURN_PATIENCE, lambda _: StoreBusy("database_contended", product="PostgreSQL"))
        self._group = GroupCommit(turn, self._write_group, most=MOST_TOGETHER, is_exclusive=False)
        self._notifier = Notifier(self)
        self._hints = Hints()
        self._claims = Claims()

    def make_hot(self) -> Hot:
        return PostgresHot(self.dialect)

    def make_firings(self) -> Firings:
        return PostgresFirings(self.hot, self._add_in_chunks)

    # -- connections ---------------------------------------------------------------------------------------------

    def direct(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Lend a driver connection in autocommit, so that a single statement is a single round trip."""
        return _Loan(self)

    def take_spare(self) -> psycopg.Connection[Any]:
        return self._fresh_spare() or self.acquire(self.open_direct)

    def give_back(self, connection: psycopg.Connection[Any], problem: BaseException | None) -> None:
        """Keep a connection for the next caller, unless something went wrong on it: then its state is unknown."""
        if problem is None and len(self._spare) < MAX_SPARE and not connection.closed:
            self._spare.append(connection)
            return
        connection.close()
        if isinstance(problem, psycopg.OperationalError) and not isinstance(problem, RETRIED):
            self._drop_spares()  # they lead to the same server; each would cost another caller a timeout

    def _fresh_spare(self) -> psycopg.Connection[Any] | None:
        while True:
            try:
                connection = self._spare.pop()
            except IndexError:
                return None
            if not _is_stale(connection):
                return connection
            connection.close()

    def _drop_spares(self) -> None:
        while self._spare:
            with suppress(IndexError):  # another thread has just taken the last one
                self._spare.pop().close()

    def open_direct(self) -> psycopg.Connection[Any]:
        pooled = self._hot_pool.connect()
        connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
        pooled.detach()
        try:
            connection.rollback()
            connection.autocommit = True
            connection.execute(hot_session(self.timeouts))
        except BaseException:
            connection.close()
            raise
        self.limit(connection, self.timeouts.hot)
        return connection

    def limit(self, connection: Any, limit: timedelta | None) -> None:
        if isinstance(connection, BoundedConnection):  # leave connections of a caller's own engine alone
            connection.limit = client_limit(limit)

    @contextmanager
    def lend(self, connection: Connection, limit: timedelta | None) -> Iterator[None]:
        driver = connection.connection.driver_connection
        if not isinstance(driver, BoundedConnection):
            yield
            return
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds(limit)}")
        before, driver.limit = driver.limit, client_limit(limit)
        try:
            yield
        finally:
            driver.limit = before

    @contextmanager
    def open_driver(self) -> Iterator[Driver]:
        with self.direct() as connection, connection.transaction():
            yield Driver(connection)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self.acquire(self.engine.connect) as connection, connection.begin():
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read in REPEATABLE READ, READ ONLY; psycopg puts both into its BEGIN, so there is no extra round trip."""
        with self.acquire(self.engine.connect) as connection:
            driver = connection.connection.driver_connection
            if not isinstance(driver, BoundedConnection):
                yield connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                return
            driver.isolation_level, driver.read_only = IsolationLevel.REPEATABLE_READ, True  # SQLAlchemy's way: 30 µs
            try:
                yield connection
            finally:
                connection.rollback()
                if not driver.closed:
                    driver.isolation_level, driver.read_only = None, None

    # -- hot verbs in one round trip -----------------------------------------------------------------------------

    def insert_plain(self, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        if type(jobs) is AlikeJobs or len(jobs) != 1:
            return self.run_with_retry(lambda: self._insert_many(job_chunks(jobs, self.insert_chunk), now))
        ticket = Ticket(jobs, now)
        self._group.submit(ticket)
        return ticket.result()

    def insert_plain_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[int | Exception]:
        tickets = [Ticket([job], now) for job, now in jobs]
        self._group.submit(*tickets)
        return [each.problem or each.result()[0] for each in tickets]

    def _write_group(self, group: list[Ticket]) -> None:
        """Insert a job of each ticket in one statement, which is its own transaction.

        Where the server refuses it, each is inserted by itself, so that one bad job fails alone. Where the server does
        not answer, the outcome is unknown for all of them, and none is sent again.
        """
        try:
            numbers = self.run_with_retry(lambda: self._insert_together(group))
        except Exception as problem:
            alone = len(group) > 1 and is_refusal(problem)
            for each in group:
                if alone:
                    self._write_group([each])
                else:
                    each.problem = problem
            return
        except BaseException as stop:  # this thread is told to end while it writes for others
            for each in group:
                each.problem = unavailable("PostgreSQL", type(stop).__name__, sent=True)
            raise
        for each, number in zip(group, numbers, strict=True):
            each.numbers = [number]

    def _insert_together(self, group: Sequence[Ticket]) -> list[int]:
        with self.direct() as connection:
            return _insert_group(connection, group)

    def _insert_many(self, pieces: Iterator[Sequence[NewJob]], now: datetime) -> list[int]:
        """Insert all pieces or none. They are sent without waiting, so that the server stores one while the next is
        made, and all of them, with begin and commit, take one round trip.
        """
        first = list(islice(pieces, 2))
        with self.direct() as connection:
            if len(first) < 2:
                return _drawn([connection.execute(*_insertion(piece, now)) for piece in first])
            with connection.pipeline(), connection.transaction():
                sent = [connection.execute(*_insertion(piece, now)) for piece in chain(first, pieces)]
            return _drawn(sent)

    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        return sorted(row[0] for row in driver.rows(*_insertion(jobs, now)))  # numbers are drawn in the rows' order

    def claim(self, claim: Claim, *, now: datetime) -> list[Job]:
        if claim.owner is not None:
            return super().claim(claim, now=now)
        if claim.queue in self.hot.fair and claim.order != "run_at":
            return self._claim_in_turns(claim, now)
        starts = self._hints.starts(claim.queue, micros(now)) if claim.order is None else ()
        taken, special = self._claim_at_once(claim, now, starts)
        if len(taken) == claim.limit:
            if claim.order is None and self.hears():
                self._hints.keep(claim.queue, taken, micros(now))
            return taken
        self._hints.drop(claim.queue)
        if not special and not starts:
            return taken
        rest = replace(claim, limit=claim.limit - len(taken))
        more = super().claim(rest, now=now) if special else self.claim(rest, now=now)
        return in_order(taken + more, claim.order) if taken else more

    def _claim_in_turns(self, claim: Claim, now: datetime) -> list[Job]:
        """Claim from a queue that is known to be shared fairly; whatever is special about it goes the longer way."""
        known = self.run_with_retry(lambda: self._look(claim, now))
        taken: list[Job] = []

        def take_turns_of(given: Mapping[str, int]) -> bool:
            tenants, house = self.hot.fair.house_of(known, given, "priority")
            found, special = self._take_turns(claim, now, tenants, house)
            known.charge_jobs(given, found, special)
            taken.extend(found)
            return special

        def take_first(room: int) -> bool:
            found, special = self._claim_at_once(replace(claim, limit=room), now, (), fair=True)
            known.charge_jobs({}, found, special)
            taken.extend(found)
            return special

        size, special = turn_size(claim.limit), False
        if known.is_mixed and known.turns_first:
            special = take_turns_of(known.share(first_part(claim.limit), size))
        if not special and (known.is_mixed or len(known.turns) < 2):
            special = take_first(claim.limit - len(taken))
            if not special and len(taken) < claim.limit:  # no due job is left, whosever it may be
                known.forget_owners()
                return taken
        while not special and (given := known.share(claim.limit - len(taken), size)):
            special = take_turns_of(given)
        if not special and len(taken) < claim.limit:
            special = take_first(claim.limit - len(taken))  # what no look has found
        return taken + super().claim(replace(claim, limit=claim.limit - len(taken)), now=now) if special else taken

    def _look(self, claim: Claim, now: datetime) -> QueueTurns:
        with self.direct() as connection:
            return self.hot.fair.look(Driver(connection), claim.queue, claim.limit, micros(now))

    def _take_turns(
        self, claim: Claim, now: datetime, given: Mapping[str, int], house: Sequence[int]
    ) -> tuple[list[Job], bool]:
        def take() -> tuple[list[Row], bool]:
            with self.direct() as connection:
                return self._claims.take_turns(connection, claim, now, given, house)

        return self._claimed(take, claim, now)

    def _claim_at_once(
        self, claim: Claim, now: datetime, starts: Sequence[tuple[int, int]], fair: bool = False
    ) -> tuple[list[Job], bool]:
        def take() -> tuple[list[Row], bool]:
            with self.direct() as connection:
                return self._claims.take(connection, claim, now, starts, fair)

        return self._claimed(take, claim, now)

    def _claimed(
        self, take: Callable[[], tuple[list[Row], bool]], claim: Claim, now: datetime
    ) -> tuple[list[Job], bool]:
        """Claim, and read what is rare: each is retried by itself, as a claim that is repeated would lose its jobs."""
        rows, special = self.run_with_retry(take)
        return self._claims.make_jobs(rows, claim, now, self._read_again), special

    def _read_again(self, numbers: list[int]) -> list[Row]:
        def attempt() -> list[Row]:
            with self.direct() as connection:
                return read_again(connection, numbers)

        return self.run_with_retry(attempt)

    def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> set[int]:
        if not settlements or not all(map(is_plain_ending, settlements)):
            return super().settle(settlements, now=now)
        left = self.run_with_retry(lambda: self._finish_at_once(settlements, now))
        return super().settle([s for s in settlements if s.number in left], now=now) if left else left

    def _finish_at_once(self, settlements: Sequence[Settlement], now: datetime) -> set[int]:
        with self.direct() as connection:
            return finish(connection, settlements, now)

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        return self.alone(lambda driver: self.hot.peek(driver, queues, node, node_id, worker_id))

    def read_time(self) -> datetime | None:
        return self.alone(lambda driver: instant(driver.rows("SELECT " + self.dialect.time_micros)[0][0]))

    def alone(self, work: Callable[[Driver], T]) -> T:
        """Run a statement without a transaction: an idle worker may send two statements a minute, not seven."""

        def attempt() -> T:
            with self.direct() as connection:
                return work(Driver(connection))

        return self.run_with_retry(attempt)

    # -- partitions ----------------------------------------------------------------------------------------------

    def alter_partitions(self, change: PartitionChange, partition: Partition, *, patient: bool = False) -> bool:
        """Let the function of the migration do it, with the rights of the role that made the tables."""

        def attempt() -> bool:
            with self.writing() as connection, self.lend(connection, None if patient else PARTITION_PATIENCE):
                return call_partition(connection, change, partition, patient=patient)

        changed = self.run_with_retry(attempt, timedelta(0))
        if change == "drop" and changed:
            self.run_with_retry(lambda: self._validate_old(partition), timedelta(0))
        return changed

    def empty_catch_all(self, partition: Partition) -> bool:
        """Make the catch-all itself the partition: no row is moved.

        Its range is proven by a CHECK, read beside the work; then the tables are swapped, which reads nothing. A row
        outside the range would be refused meanwhile: see ``mend``.
        """

        def call(verb: str, limit: timedelta | None) -> bool:
            with self.writing() as connection, self.lend(connection, limit):
                return call_partition(connection, verb, partition)

        self.run_with_retry(lambda: call("bound", PARTITION_PATIENCE), timedelta(0))
        self.run_with_retry(lambda: call("confirm", None), timedelta(0))
        return self.run_with_retry(lambda: call("take", PARTITION_PATIENCE), timedelta(0))

    def mend(self, problem: Exception) -> bool:
        """Let the catch-all take every row again where a process died, or came too late, while it emptied it."""
        if not (isinstance(problem, pg.CheckViolation) and problem.diag.constraint_name == "horae_range"):
            return False
        table = str(problem.diag.table_name).removesuffix("_rest")
        with suppress(DBAPIError), self.writing() as connection, self.lend(connection, PARTITION_PATIENCE):
            return call_partition(connection, "release", Partition(table, "rest", None, None))
        return False

    def _validate_old(self, partition: Partition) -> None:
        """Prove the new bound of ``old`` while others use it, so that the next drop need not read it under a lock."""
        with self.writing() as connection, self.lend(connection, None):
            call_partition(connection, "validate", replace(partition, name="old"))

    # -- errors --------------------------------------------------------------------------------------------------

    def translate_error(self, problem: Exception, *, sent: bool = True) -> Exception:
        if isinstance(problem, pg.UndefinedTable | pg.UndefinedColumn):
            text = str(problem).splitlines()[0]
            return SchemaMissing("tables_missing", problem=text)
        if isinstance(problem, RETRIED):
            return StoreBusy("database_contended", product="PostgreSQL")
        if took_too_long(problem):
            return StoreBusy("database_gave_up", product="PostgreSQL", problem=_first_line(problem))
        if isinstance(problem, pg.DiskFull):
            return StoreFull("database_full", product="PostgreSQL", problem=_first_line(problem))
        if isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
            return unavailable("PostgreSQL", _first_line(problem), sent=sent)
        if isinstance(problem, psycopg.Error):
            return StoreError("database_refused", product="PostgreSQL", problem=_first_line(problem))
        return problem

    def may_retry(self, problem: Exception) -> bool:
        return isinstance(problem, RETRIED)

    def is_lock_timeout(self, problem: Exception) -> bool:
        return isinstance(problem, pg.LockNotAvailable)

    # -- wake-ups ------------------------------------------------------------------------------------------------

    def hears(self) -> bool:
        return self._notifier.hears

    def tell_listeners(self, queue: str) -> None:
        self._hints.drop(queue)
        super().tell_listeners(queue)

    def wake(self, queues: Iterable[str]) -> None:
        named = list(queues)
        super().wake(named)
        self._notifier.tell(named)

    def announce_on(self, connection: Connection, queues: Iterable[str]) -> None:
        for queue in sorted(queues):
            connection.execute(select(func.pg_notify(CHANNEL, queue)))

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(listener)
        self._notifier.listen()
        return unsubscribe

    def close(self) -> None:
        self._notifier.close()
        self._drop_spares()
        self._hot_pool.dispose()
        super().close()


class _Loan:
    """One use of a connection of a store. A generator would take twice as long, for every enqueue."""

    __slots__ = ("_connection", "_store")

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def __enter__(self) -> psycopg.Connection[Any]:
        self._connection = connection = self._store.take_spare()
        return connection

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        self._store.give_back(self._connection, problem)


def call_partition(connection: Connection, verb: str, partition: Partition, *, patient: bool = False) -> bool:
    """Call the function that changes partitions."""
    assert partition.low is not None or verb in ("validate", "release")
    low, high = (None if bound is None else micros(bound) for bound in (partition.low, partition.high))
    patience = "0" if patient else f"{milliseconds(LOCK_PATIENCE)}ms"
    made = func.horae_partition(verb, partition.table, partition.name, low, high, patience)
    return bool(connection.execute(select(made)).scalar_one())


def _is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the server has closed an idle connection: then there is something to read, or its end."""
    if isinstance(connection, BoundedConnection):
        return connection.closed or connection.has_input() or connection.is_outdated
    return connection.closed or readable(connection.fileno())(0)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".") + "."
