"""The database that keeps what has a name and nothing else: a lock, a rate limit. It lives by the hash of its name.

Every statement enters the virtual shard first, so that none is written behind a move, and follows it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from horae.stores.cluster.vshard_store import VshardStore
from horae.stores.databases.driver import CallerDriver, Driver

if TYPE_CHECKING:
    from horae.ports.world import Clock
    from horae.stores.cluster.cluster import Cluster
    from horae.stores.databases.dialects import Dialect

T = TypeVar("T")


class NamedStore:
    """As much of a store as what lives by its name needs."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._store = VshardStore(cluster, cluster.shard_map.hash("name", name))

    @property
    def dialect(self) -> Dialect:
        found: Dialect = self._store.dialect
        return found

    @property
    def clock(self) -> Clock:
        """The clock of the database that keeps it: all who ask there agree on it."""
        return self._cluster.clock_of(self._cluster.shard_map.database_of(self._store.vshard))

    def with_driver(self, work: Callable[[Driver], T]) -> T:
        def enter(tx: Any) -> T:
            return work(CallerDriver(tx.connection))

        return self._store.transact(enter, hot=True)
