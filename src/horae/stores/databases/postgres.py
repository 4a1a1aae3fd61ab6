"""PostgreSQL: claims with SKIP LOCKED and fenced endings in one round trip each, wake-ups by NOTIFY."""

# size: every statement that only PostgreSQL can do in one, in one place

from __future__ import annotations

import select as sockets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg
from sqlalchemy import Connection, Engine, Table, func, select

from horae.core.jobs.job import OPEN_HANDLERS, PRIORITIES, Job, NewJob, Order, Settlement
from horae.core.partitions import Partition
from horae.core.time.instants import instant, micros
from horae.core.timeouts import Timeouts, client_limit, milliseconds
from horae.errors import SchemaMissing, StoreBusy, StoreError, StoreFull
from horae.ports import Claim, Node, PartitionChange, Upcoming
from horae.stores.codecs import Json
from horae.stores.databases.arrays import arrays
from horae.stores.databases.bulk import type_of
from horae.stores.databases.dialects import POSTGRES
from horae.stores.databases.driver import Driver, marks
from horae.stores.databases.hot import BANDS, BEATEN, Hot
from horae.stores.databases.notify import CHANNEL, Notifier
from horae.stores.databases.postgres_connections import BoundedConnection, hot_session, took_too_long
from horae.stores.jobs.hints import HEAD, Hints
from horae.stores.schedules.fires import LIVE_JOBS, MOVED, Firings
from horae.stores.store import SqlStore, T, unavailable
from horae.stores.tables.jobs import ATTEMPT, ENDING, INSERT_COLUMNS, JOBS, SNAPSHOT, ending_row, new_job_row, runs
from horae.stores.tables.jobs import jobs as job_table
from horae.stores.tables.queues import NODES
from horae.stores.tables.schedules import FIRE_COLUMNS, fires, schedules

CLAIM_SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
RETRIED = (pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
MAX_SPARE = 16
LOCK_PATIENCE = timedelta(seconds=1)  # of a change of partitions: a settle that comes after it waits as long
PARTITION_PATIENCE = 3 * LOCK_PATIENCE


def _unnest(table: Table, names: Iterable[str]) -> str:
    """Return a parameter for each column, all its values in one array."""
    return ", ".join(f"%s::{type_of(table.c[name])}[]" for name in names)


INSERT_ONE = (
    f"INSERT INTO horae_jobs ({', '.join(INSERT_COLUMNS)}) VALUES ("
    + ", ".join("%s::json" if isinstance(job_table.c[name].type, Json) else "%s" for name in INSERT_COLUMNS)
    + ") RETURNING id"
)
INSERT_MANY = (
    f"INSERT INTO horae_jobs ({', '.join(INSERT_COLUMNS)}) "
    f"SELECT * FROM unnest({_unnest(job_table, INSERT_COLUMNS)}) RETURNING id"
)
_UNNESTED = _unnest(runs, ("job_id", "token", *ENDING, "state"))
_ENDINGS = f"ended AS MATERIALIZED (SELECT * FROM unnest({_UNNESTED}) AS e (id, token, {', '.join(ENDING)}, state))"
_RUN_COLUMNS = ", ".join(("job_id", "token", *ATTEMPT, *ENDING, "state", "finished_at"))


def _listed(prefix: str, names: Iterable[str]) -> str:
    return ", ".join(f"{prefix}{name}" for name in names)


# Ends a batch in one statement: fenced delete of the jobs, feeding their final run rows; tells which were accepted.
# The lateral lookup and `= ANY(ARRAY(…))` leave the planner no choice but the primary key; as a plain join it read the
# whole table, or compared every ending with every job. For the same reason the state is compared as an expression:
# the planner must not scan the index of leases, full of dead entries, to find one job by its number.
FINISH = (
    f"WITH {_ENDINGS}, held AS MATERIALIZED (SELECT j.*, {_listed('e.', ENDING)}, e.state FROM ended e "
    f"CROSS JOIN LATERAL (SELECT id, token, {', '.join((*ATTEMPT, *SNAPSHOT))} FROM horae_jobs WHERE id = e.id "
    "AND token = e.token AND state || '' = 'running' AND linked = 0 FOR UPDATE) j), "
    "gone AS (DELETE FROM horae_jobs WHERE id = ANY(ARRAY(SELECT id FROM held))) "
    f"INSERT INTO horae_runs ({_RUN_COLUMNS}, {', '.join(SNAPSHOT)}) SELECT id, token, {', '.join(ATTEMPT)}, "
    f"{', '.join(ENDING)}, state, %s::bigint, {', '.join(SNAPSHOT)} FROM held RETURNING job_id"
)


def _write_run(final: bool) -> str:
    names, source = ("", "") if not final else (", " + ", ".join(SNAPSHOT), ", " + _listed("j.", SNAPSHOT))
    return (
        f"WITH {_ENDINGS} INSERT INTO horae_runs ({_RUN_COLUMNS}{names}) SELECT j.id, j.token, "
        f"{_listed('j.', ATTEMPT)}, {_listed('e.', (*ENDING, 'state'))}, %s::bigint{source} "
        "FROM ended e CROSS JOIN LATERAL (SELECT * FROM horae_jobs WHERE id = e.id OFFSET 0) j"
    )


WRITE_RUN = {final: _write_run(final) for final in (True, False)}
# Which candidates a claim may take as they are. A system job is decided by its own row; only a tenant's asks further,
# and draws on the budget of its handler, which the longer way writes into its row.
ADMITTED = (
    "concurrency_key IS NULL AND (owner = 'system' OR "
    "COALESCE((SELECT d.tenants = 1 AND d.budget IS NULL FROM horae_definitions d "
    f"WHERE d.name = handler), handler IN ({', '.join(map(repr, OPEN_HANDLERS))})))"
)


@lru_cache(maxsize=64)
def claim_sql(order: str | None, limit: int) -> str:
    """Return the SQL of one claim, band by band, in one statement.

    The inner limit is a literal, so that the planner trusts the index; the outer one is exact, so that no more rows are
    locked than are claimed.

    A queue with settings of its own, a candidate with a concurrency key, or a tenant's job whose handler is not open
    or has a budget, needs the longer way: then a row marked true is returned, and no such job has been changed.
    """
    special = "paused_at IS NOT NULL" + ("" if order else " OR sorting <> 'priority'")
    limited = "EXISTS (SELECT 1 FROM horae_limits WHERE name IN ('global', 'queue:' || %s) OR name LIKE 'group:%%')"
    arms = " UNION ALL ".join(
        "SELECT * FROM (SELECT id, concurrency_key, run_at, band, owner, handler FROM horae_jobs "
        "WHERE (SELECT ok FROM plain) "
        f"AND queue = %s AND state = 'queued' AND held = '' AND band = {band} AND run_at <= %s "
        f"AND (run_at, id) > (%s, %s) ORDER BY run_at, id LIMIT {limit} FOR UPDATE SKIP LOCKED) b{band}"
        for band in BANDS
    )
    sorting = " ORDER BY run_at, band, id" if order == "run_at" else ""
    return (
        f"WITH plain AS MATERIALIZED (SELECT NOT EXISTS (SELECT 1 FROM horae_queues WHERE name = %s AND ({special})) "
        f"AND NOT {limited} AS ok), "
        f"picked AS MATERIALIZED (SELECT id, {ADMITTED} AS admitted FROM ({arms}) c{sorting} LIMIT %s), "
        "taken AS (UPDATE horae_jobs SET state = 'running', token = token + 1, worker_id = %s, leased_until = %s, "
        "started_at = %s WHERE id = ANY(ARRAY(SELECT id FROM picked WHERE admitted)) "
        f"RETURNING {JOBS.sql(POSTGRES)}) SELECT false, taken.* FROM taken UNION ALL "
        f"SELECT true{', NULL' * len(JOBS.columns)} WHERE NOT (SELECT ok FROM plain) "
        "OR EXISTS (SELECT 1 FROM picked WHERE NOT admitted)"
    )


def _endings(settlements: Iterable[Settlement], *, final: bool) -> list[str | None]:
    """Return the outcomes as one list per column, for unnest."""
    return arrays((s.number, s.token, *ending_row(s), s.change.state if final else None) for s in settlements)


class PostgresHot(Hot):
    """The flows whose steps PostgreSQL can do in one statement for many rows."""

    def write_runs(self, driver: Driver, settlements: Sequence[Settlement], now: datetime, *, final: bool) -> None:
        if settlements:
            driver.change(WRITE_RUN[final], [*_endings(settlements, final=final), micros(now)])

    def beat(self, driver: Driver, node: Node) -> tuple[str, list[Any]]:
        row = NODES.row(node)
        kept = f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in BEATEN)}"
        insert = f"INSERT INTO horae_nodes ({', '.join(row)}) VALUES ({marks(len(row))}) {kept}"
        return f"WITH beat AS ({insert}) ", list(row.values())


RECORD = f"INSERT INTO horae_fires ({', '.join(FIRE_COLUMNS)}) SELECT * FROM unnest({_unnest(fires, FIRE_COLUMNS)})"
RECORDED = (
    "SELECT e.schedule_id, e.fire_at FROM unnest(%s::bigint[], %s::bigint[]) AS e (schedule_id, fire_at) CROSS JOIN "
    "LATERAL (SELECT 1 FROM horae_fires f WHERE f.schedule_id = e.schedule_id AND f.kind = 'schedule' "
    "AND f.fire_at = e.fire_at OFFSET 0) found"
)
MOVE = (
    f"UPDATE horae_schedules s SET {', '.join(f'{name} = m.{name}' for name in MOVED)} "
    f"FROM unnest({_unnest(schedules, (*MOVED, 'id'))}) AS m ({', '.join(MOVED)}, id) WHERE s.id = m.id"
)


class PostgresFirings(Firings):
    """Each step in one statement that is the same for any number of fires, so that the server plans it once."""

    def live(self, driver: Driver, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        return driver.rows(f"{LIVE_JOBS} AND schedule_id = ANY(%s::bigint[])", [list(numbers)])

    def find_recorded(self, driver: Driver, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        return set(driver.rows(RECORDED, [list(column) for column in zip(*pairs, strict=True)]))

    def find_followed(self, driver: Driver, numbers: Sequence[int]) -> set[int]:
        sql = "SELECT DISTINCT followed_id FROM horae_follows WHERE followed_id = ANY(%s::bigint[])"
        return {row[0] for row in driver.rows(sql, [list(numbers)])}

    def record(self, driver: Driver, rows: Sequence[Sequence[Any]]) -> None:
        driver.change(RECORD, [list(column) for column in zip(*rows, strict=True)])

    def move(self, driver: Driver, rows: Sequence[tuple[Any, ...]]) -> None:
        driver.change(MOVE, [list(column) for column in zip(*rows, strict=True)])


class PostgresStore(SqlStore):
    """The store for many hosts."""

    def __init__(self, engine: Engine, timeouts: Timeouts | None = None) -> None:
        super().__init__(engine, POSTGRES, timeouts)
        self.insert_chunk = 5_000
        self._hot_pool = engine.pool.recreate()  # lent connections can use up the engine's pool, not this one
        self._spare: list[psycopg.Connection[Any]] = []
        self._notifier = Notifier(self)
        self._hints = Hints()

    def make_hot(self) -> Hot:
        return PostgresHot(self.dialect)

    def make_firings(self) -> Firings:
        return PostgresFirings(self.hot, self._add_in_chunks)

    # -- connections ---------------------------------------------------------------------------------------------

    @contextmanager
    def direct(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a driver connection in autocommit, so that a single statement is a single round trip."""
        connection = self._fresh_spare() or self.acquire(self.open_direct)
        try:
            yield connection
        except BaseException as problem:
            connection.close()  # its state is unknown: it must not return to the pool
            if isinstance(problem, psycopg.OperationalError) and not isinstance(problem, RETRIED):
                self._drop_spares()  # they lead to the same server; each would cost another caller a timeout
            raise
        if len(self._spare) < MAX_SPARE and not connection.closed:
            self._spare.append(connection)
        else:
            connection.close()

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
        if len(jobs) != 1:
            return super().insert_plain(jobs, now)
        return self.run_with_retry(lambda: self._insert_one(new_job_row(jobs[0], now)))

    def _insert_one(self, row: Sequence[Any]) -> list[int]:
        with self.direct() as connection:
            found = connection.execute(INSERT_ONE, row, prepare=True).fetchone()
        assert found is not None
        return [found[0]]

    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        rows = driver.rows(INSERT_MANY, arrays(new_job_row(job, now) for job in jobs))
        return sorted(row[0] for row in rows)  # numbers are drawn in the rows' order

    def claim(self, claim: Claim, *, now: datetime) -> list[Job]:
        if claim.owner is not None:
            return super().claim(claim, now=now)
        starts = self._hints.starts(claim.queue, micros(now)) if claim.order is None else ()
        taken, special = self.run_with_retry(lambda: self._claim_at_once(claim, now, starts))
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

    def _claim_at_once(self, claim: Claim, now: datetime, starts: Sequence[tuple[int, int]]) -> tuple[list[Job], bool]:
        size = next((size for size in CLAIM_SIZES if size >= claim.limit), CLAIM_SIZES[-1])
        at, queue = micros(now), claim.queue
        limit = min(claim.limit, size)
        bands = [value for start in starts or [HEAD] * len(BANDS) for value in (queue, at, *start)]
        parameters = [queue, queue, *bands, limit, claim.worker_id, micros(claim.until(now)), at]
        with self.direct() as connection:
            rows = connection.execute(claim_sql(claim.order, size), parameters, prepare=True).fetchall()
        taken = [JOBS.read(row[1:]) for row in rows if not row[0]]
        return in_order(taken, claim.order), len(taken) < len(rows)

    def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> set[int]:
        if not settlements or any(not _is_plain(s) for s in settlements):
            return super().settle(settlements, now=now)
        left = self.run_with_retry(lambda: self._finish_at_once(settlements, now))
        return super().settle([s for s in settlements if s.number in left], now=now) if left else left

    def _finish_at_once(self, settlements: Sequence[Settlement], now: datetime) -> set[int]:
        with self.direct() as connection:
            once = {(s.number, s.token): s for s in settlements}.values()
            parameters = [*_endings(once, final=True), micros(now)]
            accepted = {row[0] for row in connection.execute(FINISH, parameters, prepare=True).fetchall()}
        return {s.number for s in settlements} - accepted

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


def call_partition(connection: Connection, verb: str, partition: Partition, *, patient: bool = False) -> bool:
    """Call the function that changes partitions."""
    assert partition.low is not None or verb == "validate"
    low, high = (None if bound is None else micros(bound) for bound in (partition.low, partition.high))
    patience = "0" if patient else f"{milliseconds(LOCK_PATIENCE)}ms"
    made = func.horae_partition(verb, partition.table, partition.name, low, high, patience)
    return bool(connection.execute(select(made)).scalar_one())


def in_order(jobs: Sequence[Job], order: Order | None) -> list[Job]:
    """Sort claimed jobs as their queue serves them; a queue with an order of its own never comes here."""

    def sort_key(job: Job) -> tuple[Any, ...]:
        band = PRIORITIES.index(job.priority)
        return (job.run_at, band, job.number) if order == "run_at" else (band, job.run_at, job.number)

    return sorted(jobs, key=sort_key)


def _is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the server has closed an idle connection: then there is something to read, or its end."""
    return connection.closed or bool(sockets.select([connection], [], [], 0)[0])


def _is_plain(settlement: Settlement) -> bool:
    """Return whether only a run row is to be written: no retry, name, dependent or lease is concerned."""
    ends = settlement.change.state in ("succeeded", "cancelled") and settlement.outcome.ending != "skipped"
    ends = ends and settlement.expired_before is None
    return ends and not settlement.unique and not settlement.has_dependents and settlement.entry is None


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".") + "."
