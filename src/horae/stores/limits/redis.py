"""Calls counted in Redis: one script, judged by the server's own clock, so that hosts cannot disagree.

The arithmetic is that of ``horae.core.limits``, written in Lua; a test holds the two against each other.
"""

from __future__ import annotations

from datetime import timedelta

from horae.core.limits import MICROSECOND, Limit
from horae.core.time.instants import micros
from horae.errors import ConfigurationError
from horae.ports.world import Clock
from horae.stores.redis import Redis, Script, redis_client, translate_errors

SECOND = 1_000_000  # in microseconds
KEEP = timedelta(seconds=5)
# calls: ticket → instant. line: ticket → order of arrival. seen: ticket → how long it keeps its place.
TAKE = Script("""
local calls, line, seen = KEYS[1], KEYS[2], KEYS[3]
local ticket, stay, now = ARGV[1], ARGV[2] == '1', tonumber(ARGV[3])
local max, window, ahead, keep = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function whole(number) return string.format('%.0f', number) end

redis.call('ZREMRANGEBYSCORE', calls, '-inf', whole(now - window))
for _, wrong in ipairs(redis.call('ZRANGEBYSCORE', calls, '(' .. whole(now + window), '+inf')) do
    redis.call('ZADD', calls, whole(now), wrong)
end
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', whole(now))) do
    if silent ~= ticket then
        redis.call('ZREM', line, silent)
        redis.call('ZREM', seen, silent)
    end
end

local made = redis.call('ZCARD', calls)
local counted = math.min(made, max)
local place = counted + ahead + (redis.call('ZRANK', line, ticket) or redis.call('ZCARD', line))
local windows, index = math.floor(place / max), place % max
if windows == 0 then
    redis.call('ZADD', calls, whole(now), ticket)
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', seen, ticket)
    redis.call('PEXPIRE', calls, whole(window / 1000 + 1000))
    return 0
end
if stay then
    if not redis.call('ZSCORE', line, ticket) then
        local last = redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')
        redis.call('ZADD', line, whole((tonumber(last[2]) or 0) + 1), ticket)
    end
    redis.call('ZADD', seen, whole(now + keep), ticket)
    redis.call('PEXPIRE', line, whole(keep / 1000 + 60000))
    redis.call('PEXPIRE', seen, whole(keep / 1000 + 60000))
end
local start = now
if index < counted then
    local nth = index + made - counted
    start = tonumber(redis.call('ZRANGE', calls, nth, nth, 'WITHSCORES')[2])
end
return start + windows * window - now
""")
DROP = Script("for _, key in ipairs(KEYS) do redis.call('ZREM', key, ARGV[1]) end return 1")


class RedisCalls:
    """*keep* is how long a waiter that falls silent keeps its place. A *clock* replaces the server's own, for tests."""

    shared = True

    def __init__(
        self, server: str | Redis, prefix: str = "horae", keep: timedelta = KEEP, clock: Clock | None = None
    ) -> None:
        if not prefix:
            raise ConfigurationError("redis_prefix_missing")
        self._client = redis_client(server)
        self._prefix = prefix
        self._keep = keep // MICROSECOND
        self._clock = clock

    @translate_errors
    def take(self, limit: Limit, ticket: str, *, stay: bool, ahead: int = 0) -> float:
        now = "" if self._clock is None else str(micros(self._clock.now()))
        arguments: list[str | int] = [ticket, int(stay), now, limit.max_calls, limit.micros, ahead, self._keep]
        return int(TAKE.run(self._client, self._keys(limit), arguments)) / SECOND

    @translate_errors
    def drop(self, limit: Limit, ticket: str) -> None:
        DROP.run(self._client, self._keys(limit), [ticket])

    def _keys(self, limit: Limit) -> list[str]:
        """Return the braces keep the keys of one limit on one node of a Redis cluster."""
        return [f"{self._prefix}:limit:{{{limit.name}}}:{part}" for part in ("calls", "line", "seen")]
