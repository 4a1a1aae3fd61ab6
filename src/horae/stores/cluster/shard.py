"""One database's part in a cluster: new rows enter their virtual shard and get numbers that carry it.

Entering takes a shared lock on the shard's row until the transaction ends, so that nothing is committed behind the copy
of a move, which locks the row exclusively. Without a cluster nothing of this is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from horae.core.cluster.numbers import first_draw, number_from, vshard_in
from horae.core.cluster.shard_map import HOME, ShardMap
from horae.core.jobs.job import SYSTEM, NewJob
from horae.errors import StaleMap, StoreError
from horae.ports.jobs import Placed
from horae.stores.databases.arrays import arrays
from horae.stores.databases.bulk import type_of
from horae.stores.databases.dialects import Dialect
from horae.stores.databases.driver import CallerDriver, Driver, marks
from horae.stores.tables.jobs import INSERT_COLUMNS, completed, is_plain, job_chunks, new_job_row, queues_of
from horae.stores.tables.jobs import jobs as job_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from horae.stores.store import SqlStore
    from horae.stores.transaction import Transaction

OWNED = "owned"
CHUNK = 500
COLUMNS = ("id", *INSERT_COLUMNS)
SEQUENCE = "horae_numbers"


class Shard:
    """A database of a cluster, as its store sees it."""

    def __init__(self, dialect: Dialect, number: int, read_map: Callable[[], ShardMap]) -> None:
        self.dialect = dialect
        self.number = number
        self.read_map = read_map

    def entrance(self, vshard: int | None = None, version: int | None = None) -> Entrance:
        """Return the way in for one transaction; with *vshard* all rows of the house go there."""
        return Entrance(self, vshard, version)

    def insert(
        self,
        store: SqlStore,
        jobs: Sequence[NewJob],
        now: datetime,
        vshard: int | None = None,
        version: int | None = None,
    ) -> list[Placed]:
        """Store new jobs in one transaction; *vshard* and *version* as the caller's map says."""
        known = completed(jobs)
        if is_plain(known):
            numbers = store.with_driver(lambda driver: self.entrance(vshard, version).add(driver, known, now))
            store.wake(queues_of(known))
            return [Placed(number) for number in numbers]

        def write(tx: Transaction) -> list[Placed]:
            if vshard is not None:
                tx.bind(vshard, version)
            return tx.jobs.insert(known, now)

        placed = store.transact(write, hot=True)
        store.wake(queues_of(known))
        return placed


class Entrance:
    """The way into a cluster's database for the new rows of one transaction."""

    __slots__ = ("_entered", "shard", "version", "vshard")

    def __init__(self, shard: Shard, vshard: int | None = None, version: int | None = None) -> None:
        self.shard = shard
        self.vshard = vshard
        self.version = version
        self._entered: set[int] = set()

    def enter(self, driver: Driver, vshards: Collection[int], *, lock: bool = True) -> None:
        """Refuse what this database does not keep, or a map older than its own; *lock* keeps that so until the end."""
        wanted = sorted(set(vshards) - self._entered)
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            sql = (
                "SELECT v.vshard, v.place, v.state, c.number, c.version "
                "FROM horae_vshards v CROSS JOIN horae_cluster c "
                f"WHERE v.vshard IN ({marks(len(chunk))}) ORDER BY v.vshard"
            )
            rows = driver.rows(sql + self.shard.dialect.shared_lock if lock else sql, chunk)
            for vshard, place, state, number, version in rows:
                if place != number or state != OWNED or (self.version is not None and version > self.version):
                    raise StaleMap("stale_map", vshard=vshard, version=version)
            if len(rows) < len(chunk):
                raise StaleMap("stale_map", vshard=chunk[0], version=0)
        if lock:
            self._entered.update(wanted)

    def number(self, connection: Connection, owner: str, *, key: str | None = None, count: int = 1) -> list[int]:
        """Enter the virtual shard of new rows of one owner and return their numbers, which carry it.

        What the house keeps goes where the transaction is bound, else by its *key*, else anywhere in this database.
        """
        shard_map, vshard = self.shard.read_map(), self.vshard
        if owner != SYSTEM:
            vshard = shard_map.vshard_of(owner=owner)
        elif vshard is None and key is not None:
            vshard = shard_map.vshard_of(key=key)
        elif vshard is None:
            vshard = self._first_here(CallerDriver(connection))
        return self.number_in(connection, vshard, count=count)

    def number_of_copy(self, connection: Connection) -> int:
        """Return the number of a row that every database has for itself and that never moves, as a house budget.

        It enters no shard: a database that keeps none yet must have the row before it gets any.
        """
        return number_from(self._draw(CallerDriver(connection), 1)[0], HOME)

    def number_in(self, connection: Connection, vshard: int, *, count: int = 1) -> list[int]:
        """Enter a virtual shard and return numbers that carry it."""
        driver = CallerDriver(connection)
        self.enter(driver, [vshard])
        return self.draw(driver, [vshard] * count)

    def add(self, driver: Driver, jobs: Sequence[NewJob], now: datetime) -> list[int]:
        """Insert jobs, each in its virtual shard; return their numbers, in order."""
        if not jobs:
            return []
        vshards = self._vshards_of(driver, jobs)
        self.enter(driver, vshards)
        numbers = [each.number or 0 for each in jobs]  # of one that is on the way, given before
        missing = [place for place, number in enumerate(numbers) if not number]
        for place, number in zip(missing, self.draw(driver, [vshards[place] for place in missing]), strict=True):
            numbers[place] = number
        start = 0
        for chunk in job_chunks(jobs, 1000):
            rows = [
                [number, *new_job_row(job, now)]
                for number, job in zip(numbers[start : start + len(chunk)], chunk, strict=True)
            ]
            self._insert(driver, rows)
            start += len(chunk)
        return numbers

    def draw(self, driver: Driver, vshards: Sequence[int]) -> list[int]:
        """Return new numbers of this database, one for each of these virtual shards, which it need not keep."""
        draws = self._draw(driver, len(vshards)) if vshards else []
        return [number_from(draw, vshard) for draw, vshard in zip(draws, vshards, strict=True)]

    def _insert(self, driver: Driver, rows: Sequence[Sequence[Any]]) -> None:
        if self.shard.dialect.arrays:
            driver.change(_insert_arrays(), arrays(rows))
        else:
            driver.many(f"INSERT INTO horae_jobs ({', '.join(COLUMNS)}) VALUES ({marks(len(COLUMNS))})", rows)

    def _draw(self, driver: Driver, count: int) -> list[int]:
        """Return so many new values, in ascending order; none is ever given again.

        Refuse those beyond this database's own: they are another's.
        """
        drawn = self._next_values(driver, count)
        if drawn[-1] >= first_draw(self.shard.number + 1):
            raise StoreError("cluster_draws_used_up", number=self.shard.number)
        return drawn

    def _next_values(self, driver: Driver, count: int) -> list[int]:
        if self.shard.dialect.arrays:
            rows = driver.rows(f"SELECT nextval('{SEQUENCE}') FROM generate_series(1, %s)", [count])
            return sorted(int(row[0]) for row in rows)
        driver.change("UPDATE horae_cluster SET drawn = drawn + %s", [count])
        [(last,)] = driver.rows("SELECT drawn FROM horae_cluster")
        return list(range(last - count + 1, last + 1))

    def _vshards_of(self, driver: Driver, jobs: Sequence[NewJob]) -> list[int]:
        """Return where each job belongs: with its owner; of the house's a fired one with its schedule, all others
        where the transaction is bound, else anywhere in this database.
        """
        shard_map, bound = self.shard.read_map(), self.vshard
        keys = self._keys_of(driver, {job.schedule_id for job in jobs if job.owner == SYSTEM and job.schedule_id})
        here = bound
        found: list[int] = []
        for job in jobs:
            given = None if job.number is None else vshard_in(job.number)
            if given is not None:
                found.append(given)
            elif job.owner != SYSTEM:
                found.append(shard_map.vshard_of(owner=job.owner))
            elif job.schedule_id in keys:
                found.append(shard_map.vshard_of(key=keys[job.schedule_id]))
            else:
                here = self._first_here(driver) if here is None else here
                found.append(here)
        return found

    def _keys_of(self, driver: Driver, schedules: Collection[int]) -> dict[int | None, str]:
        numbers = sorted(schedules)
        found: dict[int | None, str] = {}
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            sql = f"SELECT id, schedule_key FROM horae_schedules WHERE id IN ({marks(len(chunk))})"
            found |= {int(number): str(key) for number, key in driver.rows(sql, chunk)}
        return found

    def _first_here(self, driver: Driver) -> int:
        """Return the lowest virtual shard that this database keeps, for rows of its own."""
        sql = "SELECT min(vshard) FROM horae_vshards WHERE place = %s AND state = %s"
        [(first,)] = driver.rows(sql, [self.shard.number, OWNED])
        if first is None:
            raise StaleMap("stale_map", vshard=0, version=0)
        return int(first)


@lru_cache(maxsize=1)
def _insert_arrays() -> str:
    """Return the statement with each column as one parameter, as text first: a caller's driver may want a list."""
    parts = ", ".join(f"CAST(CAST(%s AS text) AS {type_of(job_table.c[name])}[])" for name in COLUMNS)
    return f"INSERT INTO horae_jobs ({', '.join(COLUMNS)}) SELECT * FROM unnest({parts})"
