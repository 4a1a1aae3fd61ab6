"""Locks in the database that keeps the jobs: shared by all processes that use it, on all three databases alike.

Every write is one conditional statement, judged by the line of leases that all processes on the store agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from sqlalchemy import delete, select

from horae.core.jobs.locks import LockHolder
from horae.core.time.instants import micros
from horae.ports.locks import Lock
from horae.ports.world import Clock, Dice
from horae.stores.databases.bulk import AT_ONCE, find_by, insert_free
from horae.stores.databases.driver import Driver
from horae.stores.locks.base import HeldLock, Locks, checked_key, checked_ttl
from horae.stores.store import SqlStore
from horae.stores.tables.locks import locks
from horae.stores.transaction import Transaction

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

    def try_lock_each(self, asked: Sequence[tuple[str, timedelta, LockHolder]]) -> list[Lock | None]:
        """Acquire locks in one transaction: those that have no row. One whose time has run out is left to ``put``."""
        now = self._clock.steady()
        held = [HeldLock(self, checked_key(key), self.token_of(holder)) for key, _, holder in asked]
        ends = [micros(now + checked_ttl(ttl)) for _, ttl, _ in asked]
        rows = [
            {"name": each.key, "token": each.token, "expires_at": until, "holder": self._holder}
            for each, until in sorted(zip(held, ends, strict=True), key=lambda pair: pair[0].key)  # against deadlocks
        ]

        def write(tx: Transaction) -> set[str]:
            if insert_free(tx.connection, locks, rows) == len(rows):
                return {each.token for each in held}
            return _tokens(tx, held, lock=False)

        ours = self._store.transact(write, hot=True) if held else set()
        return [each if each.token in ours else None for each in held]

    def release_each(self, held: Sequence[Lock]) -> list[bool]:
        """Remove locks in one transaction."""
        now = micros(self._clock.steady())

        def write(tx: Transaction) -> set[str]:
            ours = _tokens(tx, held, lock=True, after=now)
            names = sorted(each.key for each in held if each.token in ours)
            for start in range(0, len(names), AT_ONCE):
                some = names[start : start + AT_ONCE]
                tx.connection.execute(delete(locks).where(locks.c.name.in_(some), locks.c.token.in_(ours)))
            return ours

        ours = self._store.transact(write, hot=True) if held else set()
        return [each.token in ours for each in held]

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


def _tokens(tx: Transaction, held: Sequence[Lock], *, lock: bool, after: int | None = None) -> set[str]:
    """Return the tokens of these locks that their rows still have; *after* leaves out those that have run out."""
    query = select(locks.c.token) if after is None else select(locks.c.token).where(locks.c.expires_at > after)
    ours = {each.token for each in held}
    rows = find_by(tx.connection, query.with_for_update() if lock else query, locks.c.name, [each.key for each in held])
    return {row.token for row in rows if row.token in ours}
