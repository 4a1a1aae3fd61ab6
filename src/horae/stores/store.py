"""What the three stores have in common: transactions, retries, error words, wake-ups, the control plane."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from horae.core.fires import Firing
from horae.core.instants import instant
from horae.core.jobs import Job, Lease, NewJob, Settlement
from horae.errors import InvalidInput, StoreBusy, StoreError
from horae.ports import Claim, Glance, Node, Placed, Renewed, make_placed
from horae.stores.attention import Attention
from horae.stores.audit import Audit
from horae.stores.definitions import Definitions
from horae.stores.dialects import Dialect
from horae.stores.driver import Driver
from horae.stores.firing import Decide, Firings
from horae.stores.hot import Hot
from horae.stores.jobs import Jobs
from horae.stores.ledger import Ledger
from horae.stores.logs import Logs
from horae.stores.metrics import Metrics
from horae.stores.nodes import Nodes
from horae.stores.owners import Owners
from horae.stores.queues import Queues
from horae.stores.retention import forget
from horae.stores.rows import chunks
from horae.stores.schedules import Schedules
from horae.stores.schema import require_current
from horae.stores.secrets import Secrets
from horae.stores.tasks import Tasks
from horae.stores.tokens import Tokens

T = TypeVar("T")
MAX_TRIES = 8
INSERT_CHUNK = 1000


class Transaction:
    """One open transaction, room by room."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """The connection for what somebody else writes in this transaction; when it ends is not for them to say."""

        def refuse(connection: Connection) -> None:
            connection.connection.rollback()  # a commit that fails leaves it open, and nobody else could end it
            raise InvalidInput("This transaction commits when you return, together with its record; do not commit it.")

        event.listen(self.connection, "commit", refuse)
        try:
            yield self.connection
        finally:
            event.remove(self.connection, "commit", refuse)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.connection)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self.connection)

    @cached_property
    def nodes(self) -> Nodes:
        return Nodes(self.connection)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.connection)

    @cached_property
    def audit(self) -> Audit:
        return Audit(self.connection)

    @cached_property
    def logs(self) -> Logs:
        return Logs(self.connection)

    @cached_property
    def schedules(self) -> Schedules:
        return Schedules(self.connection)

    @cached_property
    def tasks(self) -> Tasks:
        return Tasks(self.connection)

    @cached_property
    def definitions(self) -> Definitions:
        return Definitions(self.connection)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens(self.connection)

    @cached_property
    def owners(self) -> Owners:
        return Owners(self.connection)

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self.connection)

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics(self.connection)

    @cached_property
    def attention(self) -> Attention:
        return Attention(self.connection)


class SqlStore(ABC):
    """The port ``Store`` over SQLAlchemy and a driver; subclasses know one database each."""

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self.engine = engine
        self.dialect = dialect
        self.hot = self.make_hot()
        self.firings = self.make_firings()
        self.insert_chunk = INSERT_CHUNK
        self._listeners: list[Callable[[str], None]] = []
        self._listeners_lock = threading.Lock()

    # -- what a database must know -------------------------------------------------------------------------------

    @abstractmethod
    def driving(self) -> AbstractContextManager[Driver]:
        """A driver connection inside a write transaction, committed at the end."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Connection]:
        """An SQLAlchemy connection inside a write transaction."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]: ...

    @abstractmethod
    def add_plain(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        """Insert jobs without keys; their numbers, in order."""

    @abstractmethod
    def translated(self, problem: Exception) -> Exception:
        """A driver's error in our words; what is not the database's fault comes back unchanged."""

    @abstractmethod
    def may_retry(self, problem: Exception) -> bool:
        """Deadlocks and the like: surely rolled back, and worth another try."""

    def make_hot(self) -> Hot:
        return Hot(self.dialect)

    def make_firings(self) -> Firings:
        return Firings(self.hot, self._add_in_chunks)

    # -- transactions --------------------------------------------------------------------------------------------

    def transact(self, work: Callable[[Transaction], T]) -> T:
        def attempt() -> T:
            with self.writing() as connection:
                return work(Transaction(connection))

        return self.persistently(attempt)

    def read(self, work: Callable[[Transaction], T]) -> T:
        def attempt() -> T:
            with self.reading() as connection:
                return work(Transaction(connection))

        return self.persistently(attempt)

    def driven(self, work: Callable[[Driver], T]) -> T:
        def attempt() -> T:
            with self.driving() as driver:
                return work(driver)

        return self.persistently(attempt)

    def persistently(self, attempt: Callable[[], T]) -> T:
        """Run a transaction; again where it was surely rolled back; in our words where it failed."""
        for tries_left in range(MAX_TRIES - 1, -1, -1):
            try:
                return attempt()
            except PoolTimeout as problem:
                raise StoreBusy(
                    "All database connections of this process are in use. End transactions sooner, or give the engine "
                    "a larger pool."
                ) from problem
            except Exception as problem:
                cause = driver_error(problem)
                if tries_left and self.may_retry(cause):
                    continue
                told = self.translated(cause)
                if told is cause:
                    raise
                raise told from problem
        raise StoreError("unreachable")  # the last round always returns or raises

    # -- the hot verbs -------------------------------------------------------------------------------------------

    def insert(self, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]:
        if any(job.key is not None or job.unique is not None or job.after for job in jobs):
            placed = self.transact(lambda tx: tx.jobs.insert(jobs, now))
        else:
            numbers = self.insert_plain(jobs, now)
            placed = [make_placed(number) for number in numbers]
        self.wake({job.queue for job in jobs})
        return placed

    def insert_plain(self, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        return self.driven(lambda driver: self._add_in_chunks(driver, jobs, now))

    def _add_in_chunks(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        numbers: list[int] = []
        for chunk in chunks(jobs, self.insert_chunk):
            numbers += self.add_plain(driver, chunk, now)
        return numbers

    def insert_on(self, connection: Any, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]:
        """Join the caller's own transaction: if it rolls back, these jobs never existed."""
        try:
            placed = Jobs(connection).insert(jobs, now)
        except DBAPIError as problem:
            cause = driver_error(problem)
            told = self.translated(cause)
            raise (problem if told is cause else told) from problem
        self.announce_on(connection, {job.queue for job in jobs})
        return placed

    def announce_on(self, connection: Connection, queues: Iterable[str]) -> None:  # noqa: B027 - doing nothing is right
        """Let the caller's commit wake sleepers, where the database can; elsewhere they look by themselves."""

    def claim(self, claim: Claim, *, now: datetime) -> list[Job]:
        return self.driven(lambda driver: self.hot.claim(driver, claim, now))

    def settle(self, settlements: Sequence[Settlement], *, now: datetime) -> set[int]:
        if not settlements:
            return set()
        rejected, queues = self.driven(lambda driver: self.hot.settle(driver, settlements, now))
        self.wake(queues)
        return rejected

    def renew(self, leases: Iterable[Lease], *, until: datetime) -> Renewed:
        held = list(leases)
        return self.driven(lambda driver: self.hot.renew(driver, held, until))

    def expired(self, *, now: datetime, limit: int) -> list[Job]:
        return self.driven(lambda driver: self.hot.expired(driver, now, limit))

    def fire(self, decide: Decide, *, now: datetime, limit: int) -> list[tuple[Firing, list[int]]]:
        return self.driven(lambda driver: self.firings.fire(driver, decide, now, limit))

    def note(
        self, lease: Lease, *, progress: str | None = None, checkpoint: str | None = None, now: datetime | None = None
    ) -> bool:
        return self.driven(lambda driver: self.hot.note(driver, lease, progress, checkpoint, now))

    def glance(self, queues: Sequence[str], *, node: Node | None = None, worker_id: str | None = None) -> Glance:
        return self.driven(lambda driver: self.hot.glance(driver, queues, node, worker_id))

    def forget(self, table: str, before: datetime, limit: int) -> int:
        return self.driven(lambda driver: forget(driver, table, before, limit))

    def let_in_forgotten(self) -> set[str]:
        queues = self.driven(self.hot.slots.forgotten)
        queues |= self.driven(lambda driver: self.hot.admission.release(driver, INSERT_CHUNK))[1]
        self.wake(queues)
        return queues

    def read_time(self) -> datetime | None:
        if not self.dialect.shares_clock:
            return None
        return self.driven(lambda driver: instant(int(driver.rows("SELECT " + self.dialect.time_micros)[0][0])))

    def check_schema(self) -> None:
        require_current(self.engine)

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
        self.engine.dispose()


def driver_error(problem: Exception) -> Exception:
    """What the driver said, without SQLAlchemy's wrapping."""
    inner = problem.orig if isinstance(problem, DBAPIError) else None
    return inner if isinstance(inner, Exception) else problem
