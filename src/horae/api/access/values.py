"""Public values of tokens, tenants and secrets. A secret's value and a token's text are in no repr."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.values import PYDANTIC


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token without its text."""

    __pydantic_config__ = PYDANTIC

    id: str
    owner: str
    name: str
    scopes: tuple[str, ...]
    queues: tuple[str, ...] = ()
    state: Literal["valid", "expired", "revoked"]
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    used_at: datetime | None = None
    used_from: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    agent: str | None = None


@dataclass(frozen=True, kw_only=True)
class TokenMade(Token):
    """A token that was just made; ``token`` is its text, shown only this once."""

    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Session:
    """A browser that is logged in to the console; ``ends_at`` unless another request comes before."""

    __pydantic_config__ = PYDANTIC

    id: str
    owner: str
    scopes: tuple[str, ...]
    queues: tuple[str, ...] = ()
    token_id: str | None = None
    address: str | None = None
    created_at: datetime
    seen_at: datetime
    ends_at: datetime


@dataclass(frozen=True, kw_only=True)
class LoginCode:
    """A code that logs one browser in, once: open ``/console/login?code=…`` before ``expires_at``."""

    __pydantic_config__ = PYDANTIC

    code: str = field(repr=False)
    token_id: str
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A tenant and its settings; what is left out is the default."""

    __pydantic_config__ = PYDANTIC

    owner: str
    allow_networks: tuple[str, ...] = ()
    allow_http: bool = False
    ports: tuple[int, ...] = ()
    max_enabled_tasks: int | None = None
    weight: int = 1


@dataclass(frozen=True, kw_only=True)
class Secret:
    """A secret without its value; until ``previous_until`` messages are also signed with the one before it."""

    __pydantic_config__ = PYDANTIC

    name: str
    created_at: datetime
    updated_at: datetime
    previous_until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SecretMade(Secret):
    """A secret that was just stored; ``value`` only where it was made here, and only this once."""

    value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Resealed:
    """The number of secrets sealed again with the current key."""

    resealed: int


@dataclass(frozen=True, kw_only=True)
class OwnerHours:
    """The quiet hours of an owner; ``quiet_until`` is when those of now end, ``quiet_at`` when they begin or end
    next.
    """

    __pydantic_config__ = PYDANTIC

    owner: str
    quiet_hours: str
    quiet_zone: str = "UTC"
    quiet_since: datetime | None = None
    quiet_at: datetime | None = None
    quiet_until: datetime | None = None
