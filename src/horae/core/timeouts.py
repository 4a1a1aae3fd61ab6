"""Timeouts for a database server."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

from horae.core.dataclass import dataclass
from horae.errors import ConfigurationError

PING = timedelta(seconds=3)  # the longest timeout of a liveness check
ANSWER = 1.0  # seconds, at most, for the server to report its own timeout before the client closes the connection


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of an application's database connections. SQLite uses only ``statement``, for writers of one process.

    ``connect``: connecting and logging in. ``hot``: a statement of enqueue, claim, settle or renew. ``statement``: any
    other statement of Horae. ``silence``: a host that does not answer on the network. ``idle``: a transaction lent to a
    handler in which no statement runs. With the defaults ``enqueue()`` returns or raises within 20 seconds.
    """

    connect: timedelta = timedelta(seconds=5)
    hot: timedelta = timedelta(seconds=10)
    statement: timedelta = timedelta(seconds=30)
    silence: timedelta = timedelta(seconds=15)
    idle: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) <= timedelta(0):
                raise ConfigurationError("timeout_too_short", name=each.name)

    @property
    def ping(self) -> timedelta:
        """The timeout of the liveness check of a pooled connection."""
        return min(PING, self.connect)

    @property
    def lock(self) -> timedelta:
        """The lock timeout of one try; two tries fit into ``hot`` and leave time for the statement itself."""
        return self.hot * 0.4


def client_limit(limit: timedelta | None) -> float | None:
    """Return the client's timeout in seconds: a little above the server's, whose answer tells the outcome."""
    if limit is None:
        return None
    seconds = limit.total_seconds()
    return seconds + min(ANSWER, seconds / 10)


def milliseconds(limit: timedelta | None) -> int:
    """Return a limit in PostgreSQL's unit; 0 means none."""
    return 0 if limit is None else max(1, round(limit.total_seconds() * 1000))
