"""Chores: who may do one, until when, and when it is due again. Every step is one conditional statement.

A chore is due once for all processes on a store. The process that takes it holds it for a while, extends that while it
works, and says at the end when it is due again; a process that dies or freezes loses it when its time has run out. What
a late process writes here is refused by the token.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from horae.core.time.instants import instant, micros
from horae.ports.chores import ChoreTurn
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import Driver

# One that is due further ahead than its rhythm allows was written by another clock, in a copy that was restored.
TAKE = (
    "UPDATE horae_chores SET token = %s, leased_until = %s, holder = %s "
    "WHERE name = %s AND leased_until <= %s AND (due_at <= %s OR due_at > %s)"
)
INSERT = "{} horae_chores (name, due_at, token, leased_until, holder) VALUES (%s, %s, %s, %s, %s) {}"
FIND = "SELECT due_at, leased_until FROM horae_chores WHERE name = %s"
EXTEND = "UPDATE horae_chores SET leased_until = %s WHERE name = %s AND token = %s AND leased_until > %s"
END = "UPDATE horae_chores SET due_at = %s, leased_until = 0, token = '' WHERE name = %s AND token = %s"
DONE = "UPDATE horae_chores SET due_at = %s, leased_until = 0, token = '', done_at = %s WHERE name = %s AND token = %s"


class Chores:
    """The statements; each is atomic by itself, so no transaction is needed around them."""

    def __init__(self, dialect: Dialect) -> None:
        self._insert = INSERT.format(*dialect.insert_ignore)

    def take(
        self, driver: Driver, name: str, *, token: str, holder: str, every: timedelta, lease: timedelta, now: datetime
    ) -> ChoreTurn:
        """Take a chore that is due and that no process holds; else say when it may be had."""
        at, until = micros(now), micros(now + lease)
        taken = ChoreTurn(True, now + lease)
        if driver.change(TAKE, [token, until, holder, name, at, at, micros(now + every + lease)]) == 1:
            return taken
        found = driver.rows(FIND, [name])
        if found:
            return ChoreTurn(False, instant(max(found[0])))
        if driver.change(self._insert, [name, at, token, until, holder]) == 1:
            return taken
        return ChoreTurn(False, now + lease)  # another process was the first ever, a moment ago

    def extend(self, driver: Driver, name: str, token: str, *, until: datetime, now: datetime) -> bool:
        return driver.change(EXTEND, [micros(until), name, token, micros(now)]) == 1

    def end(self, driver: Driver, name: str, token: str, *, due_at: datetime, done_at: datetime | None) -> bool:
        if done_at is None:
            return driver.change(END, [micros(due_at), name, token]) == 1
        return driver.change(DONE, [micros(due_at), micros(done_at), name, token]) == 1
