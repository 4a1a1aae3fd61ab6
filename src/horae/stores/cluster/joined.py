"""The database of a caller's transaction, as a member of the cluster: jobs are stored in it, or sent from it.

Which member it is stands in the database itself, so that any connection may come: one of another process's pool, of
Django, or of a database that keeps no shard at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

from horae.core.cluster.messages import HINT
from horae.core.cluster.numbers import VSHARDS
from horae.errors import ConfigurationError, StaleMap
from horae.stores.cluster.sent_jobs import send_jobs
from horae.stores.cluster.shard import OWNED, Shard
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver

if TYPE_CHECKING:
    from horae.core.jobs.job import NewJob
    from horae.ports.jobs import Placed
    from horae.stores.cluster.cluster import Cluster
    from horae.stores.store import SqlStore

WHO = "SELECT number, salt FROM horae_cluster"
KEPT = "SELECT vshard FROM horae_vshards WHERE place = %s AND state = %s ORDER BY vshard"


class JoinedDatabase:
    """One database of the cluster, inside a caller's transaction."""

    def __init__(self, cluster: Cluster, connection: Any) -> None:
        self._cluster = cluster
        self._connection = connection
        self._driver = CallerDriver(connection)
        self.number = self._find_number()
        self._store = self._find_store()
        self._shard = Shard(BY_NAME[connection.dialect.name], self.number, lambda: cluster.shard_map)

    def _find_number(self) -> int:
        """Return which member of this cluster the database is; refuse any other."""
        try:
            found = self._driver.rows(WHO)
        except DBAPIError as problem:
            if getattr(problem, "connection_invalidated", False):
                raise
            raise ConfigurationError("connection_outside_cluster") from problem
        shard_map = self._cluster.shard_map
        if not found or found[0][1] != shard_map.salt.hex():
            raise ConfigurationError("connection_outside_cluster")
        number = int(found[0][0])
        if number < 0:
            raise ConfigurationError("cluster_member_restored", member=shard_map.member(-number).name)
        return number

    def _find_store(self) -> SqlStore:
        """Return an opened store of the same kind of database: it knows errors and hints, and asks nothing."""
        kind = self._connection.dialect.name
        opened = self._cluster.opened_stores()
        known = [each for number, each in sorted(opened.items()) if each.dialect is BY_NAME[kind]]
        return opened.get(self.number) or (known[0] if known else self._cluster.store_of(self.number))

    def draw_vshard(self, roll: float) -> int:
        """Return a virtual shard of this database, by *roll*; any where it keeps none."""
        with self._store.joining():
            kept = [row[0] for row in self._driver.rows(KEPT, [self.number, OWNED])]
        return int(kept[int(roll * len(kept))]) if kept else int(roll * VSHARDS)

    def insert(self, vshard: int, jobs: Sequence[NewJob], *, now: datetime) -> list[Placed]:
        """Store jobs of one virtual shard: here, where this database keeps it, else they are sent from here.

        A shard that is just leaving counts as one of another database: the job finds it by the map.
        """
        entrance = self._shard.entrance(vshard)
        with self._store.joining():
            try:
                entrance.enter(self._driver, [vshard])
            except StaleMap:
                placed = send_jobs(self._connection, self._shard.entrance(), vshard, jobs, now)
                self._store.announce_on(self._connection, [HINT])
                return placed
        return self._store.insert_on(self._connection, jobs, now=now, entrance=entrance)
