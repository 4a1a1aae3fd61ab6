"""From a word or a URL to a lock manager: ``"database"``, ``"memory"`` or ``"redis://…"``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from horae.clock import pause
from horae.errors import ConfigurationError
from horae.ports.locks import LockManager
from horae.ports.world import World
from horae.stores.locks.database import DatabaseLocks
from horae.stores.locks.memory import MemoryLocks
from horae.stores.store import SqlStore

if TYPE_CHECKING:
    from horae.stores.cluster.cluster import Cluster


def open_locks(which: str, world: World, *, holder: str = "", prefix: str = "horae") -> LockManager:
    """Return the lock manager that a word or URL names; *holder* says who we are, for people who look at the locks.

    In Redis the lock of the job ``clean-up`` is the key ``{prefix}:lock:job:clean-up`` (S3-26).
    """
    if which == "database" and world.cluster is not None:
        from horae.stores.locks.cluster import ClusterLocks  # a single database does not need it

        return ClusterLocks(cast("Cluster", world.cluster), world.clock, world.dice, pause, holder)
    if which == "database":
        return DatabaseLocks(cast(SqlStore, world.store), world.clock, world.dice, pause, holder)
    if which == "memory":
        return MemoryLocks(world.clock, world.dice, pause)
    if which.partition("://")[0] in ("redis", "rediss", "unix"):
        from horae.stores.locks.redis import RedisLocks  # an extra, needed only for Redis

        return RedisLocks(which, world.clock, world.dice, pause, prefix)
    raise ConfigurationError("locks_unknown", value=repr(which))
