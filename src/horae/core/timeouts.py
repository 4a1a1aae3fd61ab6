"""How long to wait for a database server before it counts as gone."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from horae.errors import ConfigurationError

PING = timedelta(seconds=3)  # at most, for a pooled connection to show that it is alive
ANSWER = 1.0  # seconds, at most, that a server gets to say itself that a statement took too long


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The limits of one application's connections; SQLite, which is a file, needs none of them.

    ``connect``: until a connection is established, its login included. ``hot``: enqueue, claim, settle, renew.
    ``statement``: every other statement of ours. ``silence``: a host that no longer answers on the network. ``idle``: a
    transaction lent to a handler in which nothing happens. Together they keep ``enqueue`` below 20 seconds.
    """

    connect: timedelta = timedelta(seconds=5)
    hot: timedelta = timedelta(seconds=10)
    statement: timedelta = timedelta(seconds=30)
    silence: timedelta = timedelta(seconds=15)
    idle: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) <= timedelta(0):
                raise ConfigurationError(f"The {each.name} timeout must be longer than zero.")

    @property
    def ping(self) -> timedelta:
        """How long a pooled connection may take to show that it is alive, before it is thrown away."""
        return min(PING, self.connect)

    @property
    def lock(self) -> timedelta:
        """How long one try waits for a lock: two of them fit into what is hot, and leave time for the statement."""
        return self.hot * 0.4


def client_limit(limit: timedelta | None) -> float | None:
    """When the client gives up, in seconds: a little later than the server, which knows the outcome."""
    if limit is None:
        return None
    seconds = limit.total_seconds()
    return seconds + min(ANSWER, seconds / 10)


def milliseconds(limit: timedelta | None) -> int:
    """A limit as PostgreSQL takes it; 0 means none."""
    return 0 if limit is None else max(1, round(limit.total_seconds() * 1000))
