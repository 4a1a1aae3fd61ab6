"""Each back end with a way to let time pass, so that one suite fits all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import redis

from horae.clock import SystemClock, SystemDice, pause
from horae.stores.locks.base import Locks
from horae.stores.locks.database import DatabaseLocks
from horae.stores.locks.memory import MemoryLocks
from horae.stores.locks.redis import RedisLocks
from horae.stores.store import SqlStore
from horae.testing.clock import VirtualClock
from tests.stores.conftest import opened


@dataclass
class Ground:
    """One back end: its locks, those of another process on it, and its time."""

    locks: Locks
    others: Locks
    pass_time: Callable[[float], None]
    pauses: list[float]
    url: str | None = None  # None: nobody else can reach it


def in_memory() -> Ground:
    clock, pauses = VirtualClock(), list[float]()
    locks = MemoryLocks(clock, SystemDice(), pausing(clock, pauses))
    return Ground(locks, locks, moving(clock), pauses)


def in_database(store: SqlStore, other_store: SqlStore, url: str) -> Ground:
    clock, pauses = VirtualClock(), list[float]()
    locks, others = (
        DatabaseLocks(s, clock, SystemDice(), pausing(clock, pauses), "test") for s in (store, other_store)
    )
    return Ground(locks, others, moving(clock), pauses, url)


def in_redis(url: str) -> Ground:
    """Redis knows only real time; the test takes time off every entry instead of waiting for it."""
    client, clock, pauses = redis.Redis.from_url(url), VirtualClock(), list[float]()

    def pass_time(seconds: float) -> None:
        for key in client.keys("*"):
            left = client.pttl(key) - round(seconds * 1000)
            client.pexpire(key, left) if left > 0 else client.delete(key)

    locks, others = (RedisLocks(url, clock, SystemDice(), pausing(clock, pauses, pass_time)) for _ in range(2))
    return Ground(locks, others, pass_time, pauses, url)


def moving(clock: VirtualClock) -> Callable[[float], None]:
    return lambda seconds: void(clock.advance(timedelta(seconds=seconds)))


def pausing(
    clock: VirtualClock, pauses: list[float], also: Callable[[float], None] = lambda _: None
) -> Callable[[float], None]:
    def pause_virtually(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(timedelta(seconds=seconds))
        also(seconds)

    return pause_virtually


def void(_: object) -> None:
    return None


@contextmanager
def real_locks(url: str) -> Iterator[Locks]:
    """What another process on the same back end uses, in real time."""
    if url.startswith("redis"):
        yield RedisLocks(url, SystemClock(), SystemDice(), pause)
        return
    store = opened(url)
    yield DatabaseLocks(store, SystemClock(), SystemDice(), pause, "real")
    store.close()
