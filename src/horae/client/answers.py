"""What the service tells, as values: its own words, instants as aware datetimes. ``raw`` holds all that it said."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from horae.client.reading import Told

# -- audit -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Definition(Told):
    """A handler that a worker of the house has stored."""

    name: str
    queue: str
    tenants: bool
    app: str | None = None
    stored_at: datetime | None = None
    stored_by: str | None = None


@dataclass(frozen=True)
class Entry(Told):
    """One accountable act."""

    id: int
    at: datetime
    actor: str
    verb: str
    object_type: str
    object_id: str
    owner: str
    reason: str | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()


# -- access ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Token(Told):
    """A token without its secret; ``state`` is valid, expired or revoked."""

    id: str
    owner: str
    name: str
    scopes: tuple[str, ...]
    queues: tuple[str, ...]
    state: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    used_at: datetime | None = None
    used_from: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None


@dataclass(frozen=True, repr=False)
class TokenMade(Token):
    """A token that was just made; ``token`` is its text, told only this once."""

    token: str = ""

    def __repr__(self) -> str:
        return f"TokenMade(id={self.id!r}, owner={self.owner!r})"


@dataclass(frozen=True)
class Owner(Told):
    """A tenant and what is special about it."""

    owner: str
    allow_networks: tuple[str, ...] = ()
    allow_http: bool = False
    ports: tuple[int, ...] = ()
    max_enabled_tasks: int | None = None


@dataclass(frozen=True)
class Secret(Told):
    """A secret without its value."""

    name: str
    created_at: datetime
    updated_at: datetime
    previous_until: datetime | None = None


@dataclass(frozen=True, repr=False)
class SecretMade(Secret):
    """A secret that was just stored; ``value`` only where the service made it, and only this once."""

    value: str | None = None

    def __repr__(self) -> str:
        return f"SecretMade(name={self.name!r})"


# -- health ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check(Told):
    """One thing that was looked at."""

    name: str
    status: str
    detail: str
    seconds: float | None = None
    count: int | None = None


@dataclass(frozen=True)
class Ready(Told):
    """Whether the service can do its work, and what was looked at."""

    status: str
    checks: tuple[Check, ...]
