"""Locks in a cluster of databases: each in one of them, by the hash of its key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

from horae.ports.world import Clock, Dice
from horae.stores.cluster.cluster import Cluster
from horae.stores.locks.base import Locks
from horae.stores.locks.database import DatabaseLocks
from horae.stores.store import SqlStore


class ClusterLocks(Locks):
    """The lock manager of a cluster. Where the database of a lock is away, asking for it is a ``StoreError``."""

    def __init__(
        self, cluster: Cluster, clock: Clock, dice: Dice, pause: Callable[[float], None], holder: str = ""
    ) -> None:
        super().__init__(clock, dice, pause)
        self._cluster, self._holder = cluster, holder

    def _at(self, key: str) -> DatabaseLocks:
        place = self._cluster.named(key)
        return DatabaseLocks(cast(SqlStore, place), place.clock, self._dice, self._pause, self._holder)

    def put(self, key: str, token: str, ttl: timedelta) -> bool:
        return self._at(key).put(key, token, ttl)

    def move(self, key: str, token: str, ttl: timedelta) -> bool:
        return self._at(key).move(key, token, ttl)

    def remove(self, key: str, token: str) -> bool:
        return self._at(key).remove(key, token)

    def peek(self, key: str) -> str | None:
        return self._at(key).peek(key)

    def swap(self, key: str, seen: str, token: str, ttl: timedelta) -> bool:
        return self._at(key).swap(key, seen, token, ttl)
