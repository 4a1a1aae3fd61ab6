"""Limit calls to a provider: a rate limiter, the logs that processes share, and waiting where it still refuses.

What needs a database or Redis is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from horae.limits.backoff import backoff, is_limit_error
from horae.limits.limiter import RateLimiter

if TYPE_CHECKING:
    from horae.stores.limits.database import DatabaseCalls
    from horae.stores.limits.redis import RedisCalls

__all__ = ["DatabaseCalls", "RateLimiter", "RedisCalls", "backoff", "is_limit_error"]

_PLACES = {"DatabaseCalls": "horae.stores.limits.database", "RedisCalls": "horae.stores.limits.redis"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'horae.limits' has no attribute {name!r}")
    return getattr(_import_module(_PLACES[name]), name)
