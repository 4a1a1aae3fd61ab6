"""Calls counted in the database, so that all processes on it share one quota, on all three databases alike.

One row for each call of the last window and for each process that waits. A process that counts holds the limit's row,
for the time of a few statements and never while sleeping. The clock is read after that row is held, so that instants
are written in their order; between hosts the count is as exact as their clocks agree.
"""

from __future__ import annotations

from datetime import timedelta

from horae.core.dataclass import dataclass
from horae.core.limits import MICROSECOND, Limit
from horae.core.time.instants import micros
from horae.ports.world import Clock
from horae.stores.databases.driver import Driver
from horae.stores.store import SqlStore

SECOND = 1_000_000  # in microseconds
KEEP = timedelta(seconds=5)
NEVER = 2**62
# A write and not a SELECT … FOR UPDATE, so that a stricter isolation level refuses to count in an old snapshot.
HOLD = "UPDATE horae_rates SET name = name WHERE name = %s"
KNOW = "{} horae_rates (name) VALUES (%s) {}"
COUNT = (
    "SELECT SUM(CASE WHEN state = 'made' AND at > %s THEN 1 ELSE 0 END), "
    "SUM(CASE WHEN state = 'waiting' AND at > %s AND id < %s THEN 1 ELSE 0 END), "
    "MAX(CASE WHEN state = 'made' THEN at END) FROM horae_calls WHERE rate = %s"
)
PLACE = "SELECT id FROM horae_calls WHERE ticket = %s AND rate = %s AND state = 'waiting'"
NTH = "SELECT at FROM horae_calls WHERE rate = %s AND state = 'made' AND at > %s ORDER BY at LIMIT 1 OFFSET %s"
FORGET = (
    "DELETE FROM horae_calls WHERE rate = %s AND "
    "((state = 'made' AND at <= %s) OR (state = 'waiting' AND at <= %s AND ticket <> %s))"
)
CORRECT = "UPDATE horae_calls SET at = %s WHERE rate = %s AND state = 'made' AND at > %s"
MARK = "UPDATE horae_calls SET state = %s, at = %s WHERE ticket = %s AND rate = %s"
ADD = "INSERT INTO horae_calls (rate, ticket, state, at) VALUES (%s, %s, %s, %s)"
DROP = "DELETE FROM horae_calls WHERE ticket = %s AND rate = %s"


@dataclass(frozen=True, slots=True)
class _Count:
    """The rows of one limit at one moment, seen from one ticket."""

    made: int
    ahead: int
    row_number: int | None  # the ticket's row, where it waits already


class DatabaseCalls:
    """*keep* is how long a waiter that falls silent keeps its place: then it has died, and the next one moves up."""

    shared = True

    in_database = True

    def __init__(self, store: SqlStore, clock: Clock, keep: timedelta = KEEP) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep // MICROSECOND
        self._know = KNOW.format(*store.dialect.insert_ignore)

    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        store, clock = self._place_of(limit)
        return store.with_driver(lambda driver: self._take(driver, clock, limit, ticket, stay, ahead))

    def drop(self, limit: Limit, ticket: str) -> None:
        store, _ = self._place_of(limit)
        store.with_driver(lambda driver: driver.change(DROP, (ticket, limit.name)))

    def _place_of(self, limit: Limit) -> tuple[SqlStore, Clock]:
        """Return where a limit is counted: in a cluster in one database, by its name, and by the clock of that one."""
        named = getattr(self._store, "named", None)
        if named is None:
            return self._store, self._clock
        place = named(limit.name)
        return place, place.clock

    def _take(self, driver: Driver, clock: Clock, limit: Limit, ticket: str, stay: bool, ahead: int) -> float:
        self._hold_limit(driver, limit)
        now = micros(clock.now())
        count = self._count(driver, limit, ticket, now)
        windows, index = limit.next_turn(count.made, count.ahead + ahead)
        if not windows:
            driver.change(FORGET, (limit.name, now - limit.micros, now, ticket))
            self._write(driver, limit, ticket, "made", now, count.row_number)
            return 0.0
        if stay:
            self._write(driver, limit, ticket, "waiting", now + self._keep, count.row_number)
        start = self._nth(driver, limit, index, count.made, now)
        return (start + windows * limit.micros - now) / SECOND

    def _hold_limit(self, driver: Driver, limit: Limit) -> None:
        if not driver.change(HOLD, (limit.name,)):
            driver.change(self._know, (limit.name,))
            driver.change(HOLD, (limit.name,))

    def _count(self, driver: Driver, limit: Limit, ticket: str, now: int) -> _Count:
        row_number = next((int(row[0]) for row in driver.rows(PLACE, (ticket, limit.name))), None)
        parameters = (now - limit.micros, now, NEVER if row_number is None else row_number, limit.name)
        made, ahead, last = driver.rows(COUNT, parameters)[0]
        if last is not None and last > now + limit.micros:  # written by a clock that was wrong and has been set back
            driver.change(CORRECT, (now, limit.name, now + limit.micros))
        return _Count(int(made or 0), int(ahead or 0), row_number)

    def _nth(self, driver: Driver, limit: Limit, index: int, made: int, now: int) -> int:
        """Return the instant of the call to wait for, among the last *max_calls* that count; now without one."""
        if index >= made:
            return now
        offset = index + max(0, made - limit.max_calls)
        return int(driver.rows(NTH, (limit.name, now - limit.micros, offset))[0][0])

    def _write(self, driver: Driver, limit: Limit, ticket: str, state: str, at: int, row_number: int | None) -> None:
        if row_number is None:
            driver.change(ADD, (limit.name, ticket, state, at))
        else:
            driver.change(MARK, (state, at, ticket, limit.name))
