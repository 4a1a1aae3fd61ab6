"""Redis: scripts that are sent once and called by their hash, and errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from hashlib import sha1
from typing import Any, ParamSpec, TypeVar

from horae.errors import ConfigurationError, MissingExtra, StoreError, StoreUnavailable

try:
    from redis import Redis
    from redis.exceptions import ConnectionError as RedisConnectionError
    from redis.exceptions import NoScriptError, RedisError
    from redis.exceptions import TimeoutError as RedisTimeoutError
except ImportError as missing:
    raise MissingExtra("redis_client_missing") from missing

__all__ = ["Redis", "Script", "redis_client", "translate_errors"]

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 5.0  # seconds for an answer


def redis_client(server: str | Redis) -> Redis:
    """Return a client for a URL; an application's own client is taken as it is."""
    if not isinstance(server, str):
        return server
    try:
        return Redis.from_url(server, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
    except ValueError as problem:
        raise ConfigurationError("redis_url_unreadable", problem=str(problem)) from None


class Script:
    """A Lua script, called by its hash; a server that does not know it (any more) is sent the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()

    def run(self, client: Redis, keys: Sequence[str], arguments: Sequence[str | int]) -> Any:
        try:
            return client.evalsha(self.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return client.eval(self.text, len(keys), *keys, *arguments)


def translate_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Raise the client's errors as errors of Horae."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (RedisConnectionError, RedisTimeoutError) as problem:
            raise StoreUnavailable("redis_unreachable", problem=str(problem)) from problem
        except RedisError as problem:
            raise StoreError("redis_refused", problem=str(problem)) from problem

    return wrapper
