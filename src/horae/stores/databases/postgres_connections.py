"""Connections to PostgreSQL with a client-side timeout.

When a server, or a proxy in front of it, has stopped, its kernel still acknowledges what we send: keepalives,
``tcp_user_timeout`` and the server's own timeouts notice nothing. So the client closes a connection on which nothing
was received for too long (docs/decisions/0084-silent-databases.md).
"""

from __future__ import annotations

import math
import select
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from psycopg.generators import execute
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InvalidatePoolError

from horae.core.timeouts import Timeouts, client_limit, milliseconds
from horae.stores.databases.hosts import HOSTS, Host, Hosts, Standing, split_hosts
from horae.stores.databases.isolation import act_for_all_tenants

T = TypeVar("T")
GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
INTERVAL = 0.1  # seconds between two looks of psycopg at a silent connection
# Lets the server notice during a long statement that its client is gone; unknown before version 14, refused on Windows.
CHECK_CLIENTS = (
    "DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '{}', false); "
    "EXCEPTION WHEN others THEN NULL; END $$"
)
# The timeline that a primary writes, or that a standby has reached: a promotion raises it. The name of a WAL file
# begins with it; the control file of a new primary names it only after a checkpoint.
STANDING = (
    "SELECT current_setting('transaction_read_only') = 'off', "
    "(SELECT system_identifier::text FROM pg_control_system()), "
    "CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint()) "
    "ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END"
)
NO_STANDING = "SELECT current_setting('transaction_read_only') = 'off', '', 0"
UNABLE = (pg.InsufficientPrivilege, pg.UndefinedFunction, pg.FeatureNotSupported)  # services that hide their WAL


class Silent(psycopg.OperationalError):
    """The server has not answered in time; the connection is closed."""


class Refused(psycopg.OperationalError):
    """No host can be written to, or the host is a primary that was replaced."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when nothing was received for ``limit`` seconds; None waits without limit."""

    limit: float | None = None
    hosts: Hosts[BoundedConnection] | None = None
    standing: Standing | None = None
    search = 0
    _session: PreparedSession | None = None
    _look: Callable[[float], bool] | None = None

    @property
    def is_outdated(self) -> bool:
        """Return whether a connection of this process has met a newer primary since this one was opened."""
        if self.hosts is None or self.standing is None:
            return False
        self.hosts.watch()
        return self.hosts.timelines.is_outdated(self.standing)

    def close(self) -> None:
        """Close the connection. One that was lost makes the next connection ask all hosts who is the primary."""
        if self.hosts is not None and self._is_lost():
            self.hosts.forget(self.search)
        self.hosts = None
        super().close()

    def _is_lost(self) -> bool:
        """Return whether the server has ended the connection, or still owes an answer."""
        if self.pgconn.status != ConnStatus.OK:
            return True
        return self.pgconn.transaction_status == TransactionStatus.ACTIVE or self.has_input()

    def has_input(self, seconds: float = 0.0) -> bool:
        """Return whether something has been received, or the end of the connection, within so many seconds."""
        if self._look is None:
            self._look = readable(self.fileno())
        return self._look(seconds)

    def execute_prepared(self, sql: str, values: Sequence[Any]) -> PGresult:
        """Execute a statement with ``$1`` for its values, which are integers and text; prepare it the first time."""
        if self._session is None:
            self._session = PreparedSession(self)
        return self._session.execute(sql, values)

    def wait(self, gen: PQGen[T], interval: float = INTERVAL, *more: Any, **options: Any) -> T:
        """Wait for an answer. Every statement, commit and rollback of psycopg passes through here.

        A wait for notifications brings a timeout of its own and takes silence for an answer. It is not counted:
        near its end psycopg looks dozens of times in a millisecond, which would add up to seconds.
        """
        if self.limit is None or options.get("timeout") is not None:
            return super().wait(gen, interval, *more, **options)
        try:
            return super().wait(_count_silence(gen, interval, self.limit), interval, *more, **options)
        except Silent:
            self.close()  # a late answer must not be taken for the answer to another statement
            raise


class PreparedSession:
    """Executes prepared statements of one connection without a cursor, each in one round trip.

    A cursor adapts values one by one, looks up the statement and waits in a generator. For an enqueue of ten values
    that took 60 µs, as long as all else that it does in this process.
    """

    __slots__ = ("_connection", "_encoding", "_names")

    def __init__(self, connection: BoundedConnection) -> None:
        self._connection = connection
        self._encoding = connection.info.encoding
        self._names: dict[str, bytes] = {}

    def execute(self, sql: str, values: Sequence[Any]) -> PGresult:
        connection, encoding = self._connection.pgconn, self._encoding
        given = [b"%d" % value if type(value) is int else str(value).encode(encoding) for value in values]
        if self._connection.prepare_threshold is None:  # set where a pooler has no prepared statements
            connection.send_query_params(sql.encode(encoding), given)
        else:
            connection.send_query_prepared(self._names.get(sql) or self._prepare(sql), given)
        return self._fetch()

    def _prepare(self, sql: str) -> bytes:
        name = f"horae_{len(self._names)}".encode()
        self._connection.pgconn.send_prepare(name, sql.encode(self._encoding))
        self._fetch()
        self._names[sql] = name
        return name

    def _fetch(self) -> PGresult:
        """Wait for the answer to what was sent and return it; raise what the server says.

        As elsewhere silence is counted in intervals. On an error the connection is closed by its lender.
        """
        connection = self._connection.pgconn
        if connection.flush():  # more than the socket takes at once: psycopg knows how to send and receive by turns
            return _good(self._connection.wait(execute(connection))[-1])
        limit, silent = self._connection.limit, 0.0
        while connection.is_busy():
            if not self._connection.has_input(INTERVAL):
                silent += INTERVAL
                if limit is not None and silent >= limit:
                    raise Silent(f"no answer for {limit:g} seconds")
            connection.consume_input()
        answer = connection.get_result()
        if answer is not None:
            connection.get_result()  # nothing: it says that there is no further answer
        return _good(answer)


def _good(answer: PGresult | None) -> PGresult:
    """Return an answer that is none of an error."""
    if answer is None:
        raise psycopg.OperationalError("the connection was lost")
    if answer.status not in GOOD:
        raise pg.error_from_result(answer)
    return answer


def readable(number: int) -> Callable[[float], bool]:
    """Return a look at whether something can be read from a socket, or its end, within so many seconds."""
    if not hasattr(select, "poll"):  # Windows
        return lambda seconds: bool(select.select([number], [], [], seconds)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return lambda seconds: bool(poll.poll(seconds * 1000))


def _count_silence(gen: PQGen[T], interval: float, limit: float) -> Generator[Any, Any, T]:
    """Wrap psycopg's generator; raise once the intervals without data add up to the limit.

    Count intervals instead of measuring time, so that a process that was stopped itself does not time out on resuming.
    """
    left = limit
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready:
                left -= interval
                if left <= 0:
                    raise Silent(f"no answer for {limit:g} seconds")
            state = gen.send(ready)
    except StopIteration as ended:
        answer: T = ended.value
        return answer


def create_postgres_engine(url: str, timeouts: Timeouts) -> Engine:
    """Make an engine with timeouts on client and server; options in the URL win.

    Where the URL names several hosts, connections lead to the one that can be written to.
    """
    parsed = make_url(url)
    given = {name: value for name, value in _network(timeouts).items() if name not in parsed.query}
    engine = create_engine(
        parsed,
        pool_size=5,
        max_overflow=20,
        pool_pre_ping=True,
        pool_timeout=timeouts.hot.total_seconds(),
        connect_args=given,
    )
    hosts = HOSTS[engine] = list[Hosts[BoundedConnection]]()

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> DBAPIConnection:
        if not hosts:
            hosts.append(find_hosts(arguments, parameters, timeouts))
        return hosts[0].connect()  # type: ignore[return-value]

    bound_pool(engine, timeouts)
    act_for_all_tenants(engine)
    return engine


def find_hosts(arguments: Any, parameters: dict[str, Any], timeouts: Timeouts) -> Hosts[BoundedConnection]:
    """Return the hosts that the parameters of a connection name."""

    def connect(host: Host) -> tuple[BoundedConnection, Standing]:
        made = BoundedConnection.connect(*arguments, **{**parameters, **host})
        try:
            made.limit = client_limit(timeouts.connect)
            made.standing = _configure(made, timeouts)
        except BaseException:
            made.close()
            raise
        made.hosts, made.search = found, found.searches
        return made, made.standing

    found = Hosts(split_hosts(parameters), connect, Refused, timeouts.connect.total_seconds())
    return found


def _configure(connection: BoundedConnection, timeouts: Timeouts) -> Standing:
    """Set the timeouts of a session and ask the server for its standing, in one round trip."""
    for question in (STANDING, NO_STANDING):
        try:
            cursor = connection.execute(f"{_session(timeouts)}; {question}")
            while cursor.nextset():
                pass
            standing = Standing(*cursor.fetchone() or (True,))
            connection.commit()
            return standing
        except UNABLE:
            if question is NO_STANDING:
                raise
            connection.rollback()
    raise AssertionError("the second question is answered or raises")


def bound_pool(engine: Engine, timeouts: Timeouts) -> None:
    """Use the timeout of the liveness check while a connection is idle, that of a statement while it is in use."""
    ping, statement = timeouts.ping.total_seconds(), client_limit(timeouts.statement)

    @event.listens_for(engine, "checkin")
    def rest(connection: Any, _: Any) -> None:
        if connection is not None:
            connection.limit = ping

    @event.listens_for(engine, "checkout")
    def work(connection: Any, *_: Any) -> None:
        if connection.is_outdated:
            raise InvalidatePoolError("the primary was replaced")  # the pool connects again by itself
        connection.limit = statement


def _network(timeouts: Timeouts) -> dict[str, int]:
    """Return timeouts that libpq and the kernel enforce: connecting, and a host that vanished."""
    third = max(1, round(timeouts.silence.total_seconds() / 3))
    return {
        "connect_timeout": math.ceil(timeouts.connect.total_seconds()),
        "keepalives": 1,
        "keepalives_idle": third,
        "keepalives_interval": third,
        "keepalives_count": 2,
        "tcp_user_timeout": milliseconds(timeouts.silence),
    }


def _session(timeouts: Timeouts) -> str:
    """Return timeouts that the server enforces: statements, lock waits, idle transactions, vanished clients."""
    third = max(1, round(timeouts.silence.total_seconds() / 3))
    settings = {
        "statement_timeout": milliseconds(timeouts.statement),
        "lock_timeout": milliseconds(timeouts.lock),
        "idle_in_transaction_session_timeout": milliseconds(timeouts.idle),
        "tcp_keepalives_idle": third,
        "tcp_keepalives_interval": third,
        "tcp_keepalives_count": 2,
        "tcp_user_timeout": milliseconds(timeouts.silence),
    }
    return f"{_set(settings)}; {CHECK_CLIENTS.format(milliseconds(timeouts.silence))}"


def hot_session(timeouts: Timeouts) -> str:
    """Return session settings of the hot verbs: plans along the index in any case, and short timeouts.

    Hot transactions never pause between statements: one that is idle belongs to a frozen process.
    """
    plans = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; "
    plans += "SET enable_sort = off; SET enable_incremental_sort = off; "
    settings = {
        "statement_timeout": milliseconds(timeouts.hot),
        "idle_in_transaction_session_timeout": milliseconds(min(timeouts.silence, timeouts.idle)),
    }
    return f"{plans}SET jit = off; {_set(settings)}"


def _set(settings: dict[str, int]) -> str:
    return "; ".join(f"SET {name} = {value}" for name, value in settings.items())


def took_too_long(problem: Exception) -> bool:
    """Return whether the server itself stopped the statement or transaction, so that it is surely rolled back."""
    return isinstance(problem, pg.QueryCanceled | pg.IdleInTransactionSessionTimeout)
