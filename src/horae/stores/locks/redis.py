"""Locks in Redis, for teams that already run it: one server, best effort, as document 003 specifies them.

The entry of the business key ``job:clean-up`` is ``horae:lock:job:clean-up``; its value is the token. It is removed
and extended only by scripts that compare the token first.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from horae.core.jobs.payloads import name
from horae.errors import ConfigurationError
from horae.ports.world import Clock, Dice
from horae.stores.locks.base import Locks
from horae.stores.redis import Redis, Script, redis_client, translate_errors

MILLISECOND = timedelta(milliseconds=1)
REMOVE = Script("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end")
MOVE = Script(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"
)
# A client that sends a lost command again finds its own token there.
SWAP = Script(
    "local held = redis.call('get', KEYS[1]) if held == ARGV[1] or held == ARGV[2] then "
    "redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1 else return 0 end"
)


class RedisLocks(Locks):
    """Time runs out by the Redis server's clock."""

    def __init__(
        self,
        server: str | Redis,
        clock: Clock,
        dice: Dice,
        pause: Callable[[float], None],
        prefix: str = "horae",
    ) -> None:
        super().__init__(clock, dice, pause)
        if not prefix:
            raise ConfigurationError("redis_prefix_missing")
        self._client = redis_client(server)
        self._prefix = name(prefix, "prefix of Redis keys")

    def entry(self, key: str) -> str:
        """Return the Redis key behind a business key."""
        return f"{self._prefix}:lock:{key}"

    @translate_errors
    def put(self, key: str, token: str, ttl: timedelta) -> bool:
        if self._client.set(self.entry(key), token, nx=True, px=ttl // MILLISECOND):
            return True
        # A client that sends a lost command again is refused by its own first try.
        return self.peek(key) == token

    @translate_errors
    def move(self, key: str, token: str, ttl: timedelta) -> bool:
        return bool(MOVE.run(self._client, [self.entry(key)], [token, ttl // MILLISECOND]))

    @translate_errors
    def remove(self, key: str, token: str) -> bool:
        return bool(REMOVE.run(self._client, [self.entry(key)], [token]))

    @translate_errors
    def peek(self, key: str) -> str | None:
        held: Any = self._client.get(self.entry(key))
        return held.decode("utf-8", "replace") if isinstance(held, bytes) else held

    @translate_errors
    def swap(self, key: str, seen: str, token: str, ttl: timedelta) -> bool:
        return bool(SWAP.run(self._client, [self.entry(key)], [seen, token, ttl // MILLISECOND]))
