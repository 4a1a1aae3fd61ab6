"""Connections to PostgreSQL with a client-side timeout.

When a server, or a proxy in front of it, has stopped, its kernel still acknowledges what we send: keepalives,
``tcp_user_timeout`` and the server's own timeouts notice nothing. So the client closes a connection on which nothing
was received for too long (docs/decisions/0084-silent-databases.md).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection

from horae.core.timeouts import Timeouts, client_limit, milliseconds
from horae.stores.databases.isolation import act_for_all_tenants

T = TypeVar("T")
INTERVAL = 0.1  # seconds between two looks of psycopg at a silent connection
# Lets the server notice during a long statement that its client is gone; unknown before version 14, refused on Windows.
CHECK_CLIENTS = (
    "DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '{}', false); "
    "EXCEPTION WHEN others THEN NULL; END $$"
)


class Silent(psycopg.OperationalError):
    """The server has not answered in time; the connection is closed."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when nothing was received for ``limit`` seconds; None waits without limit."""

    limit: float | None = None

    def wait(self, gen: PQGen[T], interval: float = INTERVAL, *more: Any, **options: Any) -> T:
        """Wait for an answer. Every statement, commit and rollback of psycopg passes through here."""
        if self.limit is None:
            return super().wait(gen, interval, *more, **options)
        try:
            return super().wait(_count_silence(gen, interval, self.limit), interval, *more, **options)
        except Silent:
            self.close()  # a late answer must not be taken for the answer to another statement
            raise


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
    """Make an engine with timeouts on client and server; options in the URL win."""
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

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> DBAPIConnection:
        made = BoundedConnection.connect(*arguments, **parameters)
        made.limit = client_limit(timeouts.connect)
        return made  # type: ignore[return-value]

    @event.listens_for(engine, "connect")
    def configure(connection: BoundedConnection, _: Any) -> None:
        connection.execute(_session(timeouts))
        connection.commit()

    bound_pool(engine, timeouts)
    act_for_all_tenants(engine)
    return engine


def bound_pool(engine: Engine, timeouts: Timeouts) -> None:
    """Use the timeout of the liveness check while a connection is idle, that of a statement while it is in use."""
    ping, statement = timeouts.ping.total_seconds(), client_limit(timeouts.statement)

    @event.listens_for(engine, "checkin")
    def rest(connection: Any, _: Any) -> None:
        if connection is not None:
            connection.limit = ping

    @event.listens_for(engine, "checkout")
    def work(connection: Any, *_: Any) -> None:
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
