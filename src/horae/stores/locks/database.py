"""Locks in the database that keeps the jobs: shared by all processes that use it, on all three databases alike.

Every write is one conditional statement, judged by the line of leases that all processes on the store agree on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from horae.core.time.instants import micros
from horae.ports import Clock, Dice
from horae.stores.databases.driver import Driver
from horae.stores.locks.base import Locks
from horae.stores.store import SqlStore

TAKE_OVER = "UPDATE horae_locks SET token = %s, expires_at = %s, holder = %s WHERE name = %s AND expires_at <= %s"
INSERT = "{} horae_locks (name, token, expires_at, holder) VALUES (%s, %s, %s, %s) {}"
MOVE = "UPDATE horae_locks SET expires_at = %s WHERE name = %s AND token = %s AND expires_at > %s"
PEEK = "SELECT token FROM horae_locks WHERE name = %s AND expires_at > %s"
SWAP = "UPDATE horae_locks SET token = %s, expires_at = %s, holder = %s WHERE name = %s AND token = %s"
REMOVE = "DELETE FROM horae_locks WHERE name = %s AND token = %s AND expires_at > %s"


class DatabaseLocks(Locks):
    """The lock manager that needs no further server. *holder* says who we are, for people who read the table."""

    def __init__(
        self, store: SqlStore, clock: Clock, dice: Dice, pause: Callable[[float], None], holder: str = ""
    ) -> None:
        super().__init__(clock, dice, pause)
        self._store = store
        self._holder = holder[:255]
        self._insert = INSERT.format(*store.dialect.insert_ignore)

    def put(self, key: str, token: str, ttl: timedelta) -> bool:
        now = self._clock.steady()
        until = micros(now + ttl)

        # Taking over comes first: a failed insert would share-lock the row, and two updates after it would deadlock.
        def write(driver: Driver) -> bool:
            if driver.change(TAKE_OVER, (token, until, self._holder, key, micros(now))) == 1:
                return True
            return driver.change(self._insert, (key, token, until, self._holder)) == 1

        return self._store.with_driver(write)

    def move(self, key: str, token: str, ttl: timedelta) -> bool:
        now = self._clock.steady()
        parameters = (micros(now + ttl), key, token, micros(now))
        return self._store.with_driver(lambda driver: driver.change(MOVE, parameters) == 1)

    def remove(self, key: str, token: str) -> bool:
        parameters = (key, token, micros(self._clock.steady()))
        return self._store.with_driver(lambda driver: driver.change(REMOVE, parameters) == 1)

    def peek(self, key: str) -> str | None:
        found = self._store.with_driver(lambda driver: driver.rows(PEEK, (key, micros(self._clock.now()))))
        return found[0][0] if found else None

    def swap(self, key: str, seen: str, token: str, ttl: timedelta) -> bool:
        parameters = (token, micros(self._clock.now() + ttl), self._holder, key, seen)
        return self._store.with_driver(lambda driver: driver.change(SWAP, parameters) == 1)
