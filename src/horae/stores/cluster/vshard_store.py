"""A store that is bound to one virtual shard, wherever that lives.

Writes enter the shard first and are refused where it has left; reads look whether it is there. After a refusal the map
is read again and the work repeated where the shard is now: nothing had been written. Everything else, claims, endings,
renewals, goes to the database that keeps the shard; tokens fence it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from horae.errors import StaleMap, StoreBusy

if TYPE_CHECKING:
    from horae.core.jobs.job import NewJob
    from horae.ports.jobs import Placed
    from horae.ports.store import Tx
    from horae.stores.cluster.cluster import Cluster
    from horae.stores.cluster.named import NamedStore
    from horae.stores.store import SqlStore

T = TypeVar("T")
TRIES = 8
FIRST_PAUSE = 0.01  # seconds before the first repetition that met the same map, then twice as long: 1.3 s in all


class VshardStore:
    """The port ``Store`` for one virtual shard of a cluster."""

    def __init__(self, cluster: Cluster, vshard: int) -> None:
        self._cluster = cluster
        self.vshard = vshard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here(), name)  # what acts on rows that are there, or on the database as a whole

    def named(self, name: str) -> NamedStore:
        """Return the store of what lives by its name alone, wherever this shard is."""
        return self._cluster.named(name)

    def _here(self) -> SqlStore:
        return self._cluster.store_of(self._cluster.shard_map.database_of(self.vshard))

    def close(self) -> None:
        """Close every database of the cluster."""
        self._cluster.close()

    def transact(self, work: Callable[[Tx], T], *, hot: bool = False) -> T:
        def bound(tx: Tx, version: int) -> T:
            tx.bind(self.vshard, version)
            return work(tx)

        return self._follow(lambda store, version: store.transact(lambda tx: bound(tx, version), hot=hot))

    def read(self, work: Callable[[Tx], T], *, unbounded: bool = False) -> T:
        def bound(tx: Tx) -> T:
            tx.bind(self.vshard, None, lock=False)
            return work(tx)

        return self._follow(lambda store, _: store.read(bound, unbounded=unbounded))

    def insert(self, jobs: Sequence[NewJob], *, now: datetime) -> Sequence[Placed]:
        def add(store: SqlStore, version: int) -> Sequence[Placed]:
            assert store.shard is not None
            return store.shard.insert(store, jobs, now, self.vshard, version)

        return self._follow(add)

    def insert_on(self, connection: Any, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]:
        """Join the caller's transaction: stored where its database keeps this shard, else sent from there."""
        return self._cluster.join(connection).insert(self.vshard, jobs, now=now)

    def insert_each(self, jobs: Sequence[tuple[NewJob, datetime]]) -> list[Placed | Exception]:
        placed: list[Placed | Exception] = []
        for job, now in jobs:
            try:
                placed.append(self.insert([job], now=now)[0])
            except Exception as problem:
                placed.append(problem)
        return placed

    def _follow(self, act: Callable[[SqlStore, int], T]) -> T:
        """Act where the shard is; where it has just left, read the map again and follow it, a bounded time."""
        pause = FIRST_PAUSE
        for tries_left in range(TRIES - 1, -1, -1):
            shard_map = self._cluster.shard_map
            store = self._cluster.store_of(shard_map.database_of(self.vshard))
            try:
                return act(store, shard_map.version)
            except StaleMap as refused:
                if not tries_left:
                    raise StoreBusy("vshard_busy", vshard=self.vshard) from refused
                if self._cluster.refresh().version == shard_map.version:
                    self._cluster.pause(pause)  # the shard is being moved: its new place is not decided yet
                    pause *= 2
        raise AssertionError("the last round always returns or raises")
