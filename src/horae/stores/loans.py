"""A connection that is lent for a limited time.

Code that never comes back would hold its locks for ever. So a timer rolls its transaction back: on a server by closing
the connection, in a file by ending the transaction. What such code still wants to execute afterwards is refused.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any, Never, Self

from sqlalchemy import Connection, event

from horae.ports.store import LoanExpired


class Loan:
    """Bound the time for which a handler has a connection; leaving the block late raises LoanExpired."""

    def __init__(self, connection: Connection, limit: timedelta) -> None:
        self._connection, self._limit = connection, limit
        self._driver: Any = connection.connection.driver_connection
        self._lock = threading.Lock()
        self._ended = self._expired = False
        self._timer = threading.Timer(limit.total_seconds(), self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        event.listen(self._connection, "before_cursor_execute", self._check)
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        event.remove(self._connection, "before_cursor_execute", self._check)
        with self._lock:  # the first of two decides: the end of the loan, or its limit
            self._ended = True
        if self._expired:
            with suppress(Exception):
                self._connection.invalidate()
            self._refuse()

    def _expire(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._expired = True
            with suppress(Exception):
                if hasattr(self._driver, "interrupt"):  # a file: closing it may take a database in memory away
                    self._driver.interrupt()
                    self._driver.rollback()
                else:
                    self._driver.close()

    def _check(self, *_: Any) -> None:
        if self._expired:
            self._refuse()

    def _refuse(self) -> Never:
        raise LoanExpired(f"the connection was lent for {self._limit.total_seconds():g} s")
