"""The common base of the three stores: transactions, retries, translation of errors, wake-ups, the control plane."""

# size: one class with every verb of the port, each a line or two over the flows of its room

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from horae.core.jobs.batches import AlikeJobs
from horae.core.jobs.job import Job, Lease, NewJob, Settlement
from horae.core.time.instants import instant
from horae.core.timeouts import Timeouts
from horae.errors import StoreBusy, StoreError, StoreUnavailable
from horae.ports.jobs import Placed, PlacedAlike, make_placed
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver
from horae.stores.jobs.jobs import Jobs
from horae.stores.schema import require_served
from horae.stores.tables.jobs import completed, is_plain, job_chunks, queues_of, woken_by
from horae.stores.transaction import Transaction

if TYPE_CHECKING:
    from horae.core.partitions import Partition
    from horae.core.schedules.schedule import Firing
    from horae.core.time.boots import Boot, LeaseLine
    from horae.ports.chores import ChoreTurn, PartitionChange, Spared
    from horae.ports.claims import Claim, Renewed
    from horae.ports.schedules import Decide, EndSilent
    from horae.ports.workers import Node, Upcoming
    from horae.stores.chores import Chores
    from horae.stores.cluster.shard import Entrance, Shard
    from horae.stores.databases.hot import Hot
    from horae.stores.schedules.fires import Firings

T = TypeVar("T")
C = TypeVar("C")
MAX_TRIES = 8
INSERT_CHUNK = 1000
MAX_PATIENCE = 2  # jobs of one renewal whose locked rows are waited for, a moment each


class SqlStore(ABC):
    """The port ``Store`` over SQLAlchemy and a driver; subclasses know one database each."""

    def __init__(self, engine: Engine, dialect: Dialect, timeouts: Timeouts | None = None) -> None:
        self.engine = engine
        self.dialect = dialect
        self.timeouts = timeouts or Timeouts()
        self.owns_engine = True  # False: the engine is the caller's own and is not disposed of
        self.insert_chunk = INSERT_CHUNK
        self.shard: Shard | None = None  # its part in a cluster, where there is one
        self._turn = 0
        self._here = threading.local()  # the open moment of each thread
        self._listeners: list[Callable[[str], None]] = []
        self._listeners_lock = threading.Lock()

    # -- what a database must know -------------------------------------------------------------------------------

    @abstractmethod
    def open_driver(self) -> AbstractContextManager[Driver]:
        """Open a driver connection inside a write transaction; commit at the end."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """Open an SQLAlchemy connection inside a write transaction."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Open an SQLAlchemy connection in a read-only transaction that sees one moment."""

    @abstractmethod
    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        """Insert jobs without keys; their numbers, in order."""

    @abstractmethod
    def translate_error(self, problem: Exception, *, sent: bool = True) -> Exception:
        """Return a driver's error as one of Horae; what is not the database's fault comes back unchanged.

        *sent*: a writing statement was sent, so that a missing answer leaves the outcome unknown.
        """

    @abstractmethod
    def may_retry(self, problem: Exception) -> bool:
        """Return whether the work was surely rolled back and is worth another try, as after a deadlock."""

    def is_lock_timeout(self, problem: Exception) -> bool:
        """Return whether a retryable problem is a lock timeout, which has cost ``timeouts.lock``."""
        return False

    def limit(self, connection: Any, limit: timedelta | None) -> None:  # noqa: B027 - a file needs none
        """Set the client-side timeout of a driver connection of Horae."""

    @contextmanager
    def lend(self, connection: Connection, limit: timedelta | None) -> Iterator[None]:
        """Replace Horae's statement timeout by *limit* while a handler uses the connection."""
        yield

    @cached_property
    def hot(self) -> Hot:
        return self.make_hot()

    def make_hot(self) -> Hot:
        from horae.stores.databases.hot import Hot

        return Hot(self.dialect)

    @cached_property
    def chores(self) -> Chores:
        from horae.stores.chores import Chores

        return Chores(self.dialect)

    @cached_property
    def firings(self) -> Firings:
        return self.make_firings()

    def make_firings(self) -> Firings:
        from horae.stores.schedules.fires import Firings

        return Firings(self.hot, self._add_in_chunks)

    # -- transactions --------------------------------------------------------------------------------------------

    def transact(self, work: Callable[[Transaction], T], *, hot: bool = False) -> T:
        limit = self.timeouts.hot if hot else self.timeouts.statement

        def attempt() -> tuple[T, set[str]]:
            with self.writing() as connection:
                if hot:
                    self.limit(connection.connection.driver_connection, limit)
                tx = Transaction(connection, self.lend, self.hot, self.shard)
                return work(tx), tx.woken

        answer, woken = self.run_with_retry(attempt, limit)
        if woken:
            self.wake(woken)
        return answer

    def read(self, work: Callable[[Transaction], T], *, unbounded: bool = False) -> T:
        """Run *work* in one read-only transaction; *unbounded* lifts the statement timeout, for exports."""
        moment: _Moment | None = getattr(self._here, "moment", None)

        def attempt() -> T:
            with self.reading() as connection, self.lend(connection, None) if unbounded else nullcontext():
                return work(Transaction(connection, shard=self.shard))

        joins = attempt if moment is None else lambda: moment.read(work)
        return self.run_with_retry(joins, self.timeouts.statement, sent=False)

    def read_uncommitted(self, work: Callable[[Transaction], T]) -> T | None:
        """Run *work* so that it also sees rows which others have not committed; None where it need not.

        For what must see every number that was drawn: it may be committed long after higher ones.
        """
        return None

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Run all reads of this thread inside the block in one transaction, so that they see one moment."""
        if getattr(self._here, "moment", None) is not None:
            yield  # nested: the outer transaction serves both
            return
        self._here.moment = moment = _Moment(self.reading, self.shard)
        try:
            yield
        finally:
            self._here.moment = None
            moment.end()

    def with_driver(self, work: Callable[[Driver], T]) -> T:
        def attempt() -> T:
            with self.open_driver() as driver:
                return work(driver)

        return self.run_with_retry(attempt)

    def run_with_retry(self, attempt: Callable[[], T], limit: timedelta | None = None, *, sent: bool = True) -> T:
        """Run a transaction; retry where it was surely rolled back; raise Horae's errors where it failed.

        Lock timeouts are retried until they have used up *limit* (default: the hot timeout).
        """
        patience = self.timeouts.hot if limit is None else limit
        for tries_left in range(MAX_TRIES - 1, -1, -1):
            try:
                return attempt()
            except PoolTimeout as problem:
                raise _pool_exhausted() from problem
            except Exception as problem:
                cause = driver_error(problem)
                if tries_left and self.mend(cause):
                    continue
                if tries_left and self.may_retry(cause):
                    patience -= self.timeouts.lock if self.is_lock_timeout(cause) else timedelta(0)
                    if patience > self.timeouts.lock:
                        continue
                error = self.translate_error(cause, sent=sent)
                if error is cause:
                    raise
                raise error from problem
        raise AssertionError("the last round always returns or raises")

    def mend(self, problem: Exception) -> bool:
        """Remove what made a statement fail, where a death may have left it behind; return whether that was done."""
        return False

    def acquire(self, connect: Callable[[], C]) -> C:
        """Get a connection; an error here means that nothing was sent, and says so."""
        try:
            return connect()
        except PoolTimeout as problem:
            raise _pool_exhausted() from problem
        except Exception as problem:
            cause = driver_error(problem)
            error = self.translate_error(cause, sent=False)
            if error is cause:
                raise
            raise error from problem

    # -- the hot verbs -------------------------------------------------------------------------------------------

    def insert(self, jobs: Sequence[NewJob], *, now: datetime) -> Sequence[Placed]:
        if self.shard is not None:
            return self.shard.insert(self, jobs, now)
        if type(jobs) is list and len(jobs) == 1 and not jobs[0].is_named:  # as most: without looks at all of them
            [number] = self.insert_plain(jobs, now)
            self.wake((jobs[0].queue,))
            return [make_placed(number)]
        placed: Sequence[Placed]
        if not is_plain(jobs):
            placed = self.transact(lambda tx: tx.jobs.insert(jobs, now), hot=True)
            self.wake(woken_by(jobs))
        else:
            numbers = self.insert_plain(jobs, now)
            placed = PlacedAlike(numbers) if type(jobs) is AlikeJobs else list(map(make_placed, numbers))
            self.wake(queues_of(jobs))
        return placed

    def insert_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[Placed | Exception]:
        """Store jobs of several callers, with as few commits as possible; what is refused is refused alone."""
        if self.shard is not None:
            return [_or_problem(partial(self._insert_lone, job, now)) for job, now in jobs]
        placed: dict[int, Placed | Exception] = {}
        plain = [index for index, (job, _) in enumerate(jobs) if not job.is_named]
        named = [index for index, (job, _) in enumerate(jobs) if job.is_named]
        for index, number in zip(plain, self.insert_plain_each([jobs[index] for index in plain]), strict=True):
            placed[index] = number if isinstance(number, Exception) else make_placed(number)
        placed |= dict(zip(named, self._insert_named_each([jobs[index] for index in named]), strict=True))
        self.wake(woken_by([job for index, (job, _) in enumerate(jobs) if not isinstance(placed[index], Exception)]))
        return [placed[index] for index in range(len(jobs))]

    def _insert_lone(self, job: NewJob, now: datetime) -> Placed:
        return self.insert([job], now=now)[0]

    def _insert_named_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[Placed | Exception]:
        """Store jobs with names in one transaction; where one of them is refused, which undoes all, each in its own.

        Where the store itself fails, it fails for all: a caller that sent a key may send it again.
        """
        if len(jobs) > 1:
            now = max(at for _, at in jobs)
            try:
                return [*self.transact(lambda tx: tx.jobs.insert([job for job, _ in jobs], now), hot=True)]
            except Exception as problem:
                if not is_refusal(problem):
                    return [problem] * len(jobs)
        return [_or_problem(partial(self._insert_named, job, at)) for job, at in jobs]

    def _insert_named(self, job: NewJob, now: datetime) -> Placed:
        return self.transact(lambda tx: tx.jobs.insert([job], now), hot=True)[0]

    def insert_plain_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[int | Exception]:
        """Insert jobs without names, each refused alone; stores that can share a commit do."""
        return [_or_problem(partial(self._insert_alone, job, at)) for job, at in jobs]

    def _insert_alone(self, job: NewJob, now: datetime) -> int:
        return self.insert_plain([job], now)[0]

    def insert_plain(self, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        known = completed(jobs)
        return self.with_driver(lambda driver: self._add_in_chunks(driver, known, now))

    def _add_in_chunks(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        if self.shard is not None:
            return self.shard.entrance().add(driver, jobs, now)
        numbers: list[int] = []
        for chunk in job_chunks(jobs, self.insert_chunk):
            numbers += self.add_plain(driver, chunk, now)
        return numbers

    def insert_on(
        self, connection: Any, jobs: Sequence[NewJob], *, now: datetime, entrance: Entrance | None = None
    ) -> list[Placed]:
        """Join the caller's own transaction: if it rolls back, these jobs never existed."""
        with self.joining():
            if entrance is None and self.shard is not None:
                entrance = self.shard.entrance()
            woken: set[str] = set()
            placed = Jobs(connection, woken=woken, entrance=entrance).insert(list(jobs), now)
        self.announce_on(connection, woken.union(woken_by(jobs)))
        return placed

    @contextmanager
    def joining(self) -> Iterator[None]:
        """Translate errors of statements in a caller's transaction."""
        try:
            yield
        except DBAPIError as problem:
            cause = driver_error(problem)
            error = self.translate_error(cause, sent=False)  # the transaction is the caller's, and so is its commit
            raise (problem if error is cause else error) from problem

    def announce_on(self, connection: Connection, queues: Iterable[str]) -> None:  # noqa: B027 - doing nothing is right
        """Let the caller's commit wake sleepers, where the database can; elsewhere they look by themselves."""

    def claim(self, claim: Claim, *, now: datetime) -> list[Job]:
        return self.with_driver(lambda driver: self.hot.claim(driver, claim, now))

    def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> set[int]:
        if not settlements:
            return set()
        rejected, queues = self.with_driver(lambda driver: self.hot.settle(driver, settlements, now))
        self.wake(queues)
        return rejected

    def renew(self, leases: Iterable[Lease], *, until: datetime) -> Renewed:
        asked = {(lease.job_number, lease.token): lease for lease in leases}
        answer = self.with_driver(lambda driver: self.hot.renew(driver, list(asked.values()), until))
        busy = sorted(answer.busy)
        self._turn += 1  # start at another row each time, so that none is always left out
        for offset in range(min(len(busy), MAX_PATIENCE)):
            number = busy[(self._turn + offset) % len(busy)]
            same = [lease for lease in asked.values() if lease.job_number == number]
            answer = self._renew_patiently(answer, same, until)
        return answer

    def _renew_patiently(self, answer: Renewed, leases: Sequence[Lease], until: datetime) -> Renewed:
        """Renew a job whose row was locked, waiting briefly: most such locks are short writes of its own handler."""

        def attempt() -> Renewed:
            with self.open_driver() as driver:
                return self.hot.renew(driver, leases, until, patient=True)

        try:
            now = self.run_with_retry(attempt, timedelta(0))
        except StoreBusy:
            return answer  # still locked: the reaper cannot hand the job on either
        again = {lease.job_number for lease in leases}
        return replace(
            answer,
            held=answer.held - again | now.held,
            cancelled=answer.cancelled - again | now.cancelled,
            busy=answer.busy - again | now.busy,
        )

    def find_expired(self, *, now: datetime, limit: int) -> list[Job]:
        return self.with_driver(lambda driver: self.hot.find_expired(driver, now, limit))

    @property
    def fires_beside(self) -> int:
        """Two where a batch skips the rows of another: one is decided on while the server writes the other."""
        return 2 if self.dialect.locking else 1

    def fire(
        self, decide: Decide, end_silent: EndSilent, *, now: datetime, limit: int
    ) -> list[tuple[Firing, list[int]]]:
        return self.with_driver(lambda driver: self.firings.fire(driver, decide, end_silent, now, limit))

    def note(
        self, lease: Lease, *, progress: str | None = None, checkpoint: str | None = None, now: datetime | None = None
    ) -> bool:
        return self.with_driver(lambda driver: self.hot.note(driver, lease, progress, checkpoint, now))

    def peek(
        self,
        queues: Sequence[str],
        *,
        node: Node | None = None,
        node_id: str | None = None,
        worker_id: str | None = None,
    ) -> Upcoming:
        return self.with_driver(lambda driver: self.hot.peek(driver, queues, node, node_id, worker_id))

    def alone(self, work: Callable[[Driver], T]) -> T:
        """Run statements that need no transaction around them, where the database can do without."""
        return self.with_driver(work)

    def take_chore(
        self, name: str, *, token: str, holder: str, every: timedelta, lease: timedelta, now: datetime
    ) -> ChoreTurn:
        take = partial(self.chores.take, name=name, token=token, holder=holder, every=every, lease=lease, now=now)
        return self.alone(take)

    def extend_chore(self, name: str, token: str, *, until: datetime, now: datetime) -> bool:
        return self.alone(lambda driver: self.chores.extend(driver, name, token, until=until, now=now))

    def end_chore(self, name: str, token: str, *, due_at: datetime, done_at: datetime | None) -> bool:
        return self.alone(lambda driver: self.chores.end(driver, name, token, due_at=due_at, done_at=done_at))

    def forget(self, table: str, before: datetime, limit: int, *, spared: Spared | None = None) -> int:
        from horae.stores.retention import forget

        return self.with_driver(lambda driver: forget(driver, table, before, limit, spared))

    def alter_partitions(self, change: PartitionChange, partition: Partition, *, patient: bool = False) -> bool:
        return False  # where nothing is partitioned there is nothing to do

    def empty_catch_all(self, partition: Partition) -> bool:
        return False

    def return_aside(self, table: str, limit: int) -> int:
        return 0

    def let_in_forgotten(self) -> set[str]:
        queues = self.with_driver(self.hot.slots.let_in_forgotten)
        queues |= self.with_driver(lambda driver: self.hot.admission.release(driver, INSERT_CHUNK))[1]
        self.wake(queues)
        return queues

    def settle_children(self, *, now: datetime, limit: int) -> int:
        needs = self.hot.links.needs
        done, queues = self.with_driver(lambda driver: needs.settle_pending(driver, now, limit))
        self.wake(queues)
        return done

    def mend_batches(self, *, now: datetime, limit: int) -> int:
        def mend(driver: Driver) -> tuple[int, set[str]]:
            never, ended, queues = self.hot.links.batches.mend(driver, now, limit)
            return ended, queues | self.hot.links.needs.fail(driver, never, now)

        ended, queues = self.with_driver(mend)
        self.wake(queues)
        return ended

    def find_lost_parents(self) -> int:
        return self.with_driver(self.hot.links.needs.find_lost)

    def read_time(self) -> datetime | None:
        if not self.dialect.shares_clock:
            return None
        return self.with_driver(lambda driver: instant(int(driver.rows("SELECT " + self.dialect.time_micros)[0][0])))

    def lease_line(self, boot: Boot, *, now: datetime, fix: bool = True) -> LeaseLine | None:
        return None

    def open_schema(self) -> None:
        """Demand that the tables are there and served here; a database that is a file makes them."""
        self.run_with_retry(self.check_schema)

    def check_schema(self) -> None:
        require_served(self.engine)

    # -- wake-ups ------------------------------------------------------------------------------------------------

    def hears(self) -> bool:
        return True

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        with self._listeners_lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._listeners_lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def wake(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self.tell_listeners(queue)

    def tell_listeners(self, queue: str) -> None:
        if not self._listeners:
            return
        with self._listeners_lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener(queue)

    def close(self) -> None:
        if self.owns_engine:
            self.engine.dispose()


def _or_problem(insert: Callable[[], T]) -> T | Exception:
    try:
        return insert()
    except Exception as problem:
        return problem


def is_refusal(problem: Exception) -> bool:
    """Return whether the work was refused for what it is, and undone; not for the state of the store."""
    return type(problem) is StoreError or not isinstance(problem, StoreError)


class _Moment:
    """One read-only transaction for several reads, begun by the first; after an error the next read begins another."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]], shard: Shard | None) -> None:
        self._reading = reading
        self._shard = shard
        self._open: ExitStack | None = None
        self._transaction: Transaction | None = None

    def read(self, work: Callable[[Transaction], T]) -> T:
        if self._transaction is None:
            opened = ExitStack()
            self._transaction = Transaction(opened.enter_context(self._reading()), shard=self._shard)
            self._open = opened
        try:
            return work(self._transaction)
        except DBAPIError:
            self.end()
            raise

    def end(self) -> None:
        opened, self._open, self._transaction = self._open, None, None
        if opened is not None:
            opened.close()


def unavailable(product: str, problem: str, *, sent: bool) -> StoreUnavailable:
    """Return the error for a missing answer; says whether a writing statement had been sent."""
    if not sent:
        return StoreUnavailable("database_not_reached", product=product, problem=problem)
    return StoreUnavailable("outcome_unknown", product=product, problem=problem, outcome_unknown=True)


def _pool_exhausted() -> StoreBusy:
    return StoreBusy("pool_exhausted")


def driver_error(problem: Exception) -> Exception:
    """Return what the driver said, without SQLAlchemy's wrapping."""
    inner = problem.orig if isinstance(problem, DBAPIError) else None
    return inner if isinstance(inner, Exception) else problem
