"""Public values of tokens, tenants and secrets. A secret's value and a token's text are in no repr."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from horae.api.values import PYDANTIC


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


@dataclass(frozen=True, kw_only=True)
class TokenMade(Token):
    """A token that was just made; ``token`` is its text, shown only this once."""

    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A tenant and its settings; what is left out is the default."""

    __pydantic_config__ = PYDANTIC

    owner: str
    allow_networks: tuple[str, ...] = ()
    allow_http: bool = False
    ports: tuple[int, ...] = ()
    max_enabled_tasks: int | None = None


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
    """How many secrets were sealed with the current key."""

    resealed: int
