"""PostgreSQL's LISTEN and NOTIFY as hints: rare, verified, never relied upon.

A NOTIFY on every enqueue would cost a third of the enqueue throughput, so a process sends at most one for each
queue in fifty milliseconds; what came in between is sent once at the end of that time. Listeners check at start
that a hint really arrives (behind some poolers it never does) and say so if it does not. A listener that received
nothing for a while checks its connection, because a dead server looks just like one without notifications.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import psycopg
from psycopg import capabilities
from sqlalchemy.exc import SQLAlchemyError

from horae.core.timeouts import Timeouts

CHANNEL = "horae"
QUIET = 0.05
RECONNECT = 1.0
LISTEN_STEP = 1.0  # seconds between two looks at whether the listener should end
TROUBLE = (psycopg.Error, SQLAlchemyError)
log = logging.getLogger("horae.stores")


class _Source(Protocol):
    @property
    def timeouts(self) -> Timeouts: ...
    def limit(self, connection: Any, limit: timedelta | None) -> None: ...
    def open_direct(self) -> psycopg.Connection[Any]: ...
    def tell_listeners(self, queue: str) -> None: ...


class Notifier:
    """Sends hints to other processes and passes theirs on to ours."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._pending: set[str] = set()
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._sender: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        self.hears = False

    # -- sending -------------------------------------------------------------------------------------------------

    def tell(self, queues: Iterable[str]) -> None:
        """Ask for a hint; it goes out at once when the line is quiet, otherwise a moment later."""
        queues = tuple(queues)
        if self._pending.issuperset(queues):
            return  # it has been asked for and will be sent after this commit
        with self._lock:
            self._pending.update(queues)
            if not self._pending or self._ended.is_set():
                return
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_on, name="horae-notify", daemon=True)
                self._sender.start()
                atexit.register(self.close)
        self._wanted.set()

    def _send_on(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        while True:
            self._wanted.wait()
            self._wanted.clear()
            with self._lock:
                queues, self._pending = sorted(self._pending), set()
            try:
                connection = connection or self._source.open_direct()
                if queues:
                    connection.execute("SELECT pg_notify(%s, q) FROM unnest(%s::text[]) q", [CHANNEL, queues])
            except TROUBLE as problem:
                log.debug("a hint could not be sent: %s", problem)  # sleepers look by themselves
                if connection is not None:
                    connection.close()
                connection = None
            if self._ended.wait(QUIET):
                with self._lock:
                    done = not self._pending
                if done:
                    break
                self._wanted.set()
        if connection is not None:
            connection.close()

    # -- listening -----------------------------------------------------------------------------------------------

    def listen(self) -> None:
        with self._lock:
            if self._listener is None and not self._ended.is_set():
                self._listener = threading.Thread(target=self._listen_on, name="horae-listen", daemon=True)
                self._listener.start()

    def _listen_on(self) -> None:
        while not self._ended.is_set():
            with suppress(*TROUBLE), self._source.open_direct() as connection:
                self._hear(connection)
            if self.hears:
                self.hears = False
                self._source.tell_listeners("*")  # wake sleepers that rely on hints, so that they poll from now on
            self._ended.wait(RECONNECT)

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        self._source.limit(connection, self._source.timeouts.ping)
        connection.execute(f"LISTEN {CHANNEL}")
        connection.execute("SELECT pg_notify(%s, '')", [CHANNEL])  # a ping to itself: tests whether hints arrive
        silent, quiet = True, 0.0
        patience = max(LISTEN_STEP, (self._source.timeouts.silence - self._source.timeouts.ping).total_seconds())
        self._source.tell_listeners("*")  # notifications may have been missed while not connected
        while not self._ended.is_set() and not getattr(connection, "is_outdated", False):
            quiet += LISTEN_STEP
            for note in connection.notifies(timeout=LISTEN_STEP, stop_after=1):
                silent, self.hears, quiet = False, True, 0.0
                if note.payload:
                    self._source.tell_listeners(note.payload)
            if silent:
                log.warning("PostgreSQL hints do not arrive (a pooler in between?); new work is found by polling")
                silent = False
            if quiet >= patience:
                _check_connection(connection)
                quiet = 0.0

    def close(self) -> None:
        """Send what is still pending, then stop both threads."""
        self._ended.set()
        self._wanted.set()
        for thread in (self._sender, self._listener):
            if thread is not None and thread is not threading.current_thread():
                thread.join(timeout=3)


def _check_connection(connection: psycopg.Connection[Any]) -> None:
    """Check the connection with a Sync message, which is not a query; old client libraries repeat the LISTEN."""
    if capabilities.has_pipeline():
        with connection.pipeline():
            pass
    else:
        connection.execute(f"LISTEN {CHANNEL}")
