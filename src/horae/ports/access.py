"""Tokens, sessions, tenants and secrets; and the views that people keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from horae.core.dataclass import dataclass

if TYPE_CHECKING:
    from horae.core.access.callers import Token
    from horae.core.access.sessions import LoginCode, Session
    from horae.core.views import View


class ViewRows(Protocol):
    """Saved views inside one transaction."""

    def get(self, number: int, *, lock: bool = False) -> View | None: ...
    def named(self, owner: str, author: str, room: str, name: str) -> View | None: ...
    def find(self, owner: str, author: str, room: str | None, *, limit: int) -> list[View]:
        """Return the views of a person and those shared in its tenant, by name."""

    def count(self, owner: str, author: str) -> int: ...
    def add(self, view: View) -> int: ...
    def put(self, view: View) -> None: ...
    def remove(self, number: int) -> None: ...


class TokenRows(Protocol):
    """Access tokens of the service."""

    def get(self, token_id: str) -> Token | None: ...
    def find(self, owner: str | None, *, limit: int, after: tuple[datetime, str] | None = None) -> list[Token]: ...
    def add(self, token: Token) -> None: ...
    def revoke(self, token_id: str, *, actor: str, now: datetime) -> bool: ...
    def mark_used(self, token_id: str, *, address: str | None, now: datetime) -> None: ...
    def valid(self, token_ids: Collection[str], now: datetime) -> set[str]:
        """Return which of these are neither revoked nor expired."""


class SessionRows(Protocol):
    """Browsers that are logged in, and codes that log one in."""

    def get(self, session_id: str) -> Session | None: ...
    def find(
        self, owner: str | None, now: datetime, *, limit: int, after: tuple[datetime, str] | None = None
    ) -> list[Session]: ...
    def open(self, session_ids: Collection[str], now: datetime) -> set[str]:
        """Return which of these, of a thousand at most, have not ended."""

    def add(self, session: Session) -> None: ...
    def mark_seen(self, session_id: str, now: datetime) -> None: ...
    def remove(self, session_id: str) -> bool: ...
    def add_code(self, code: LoginCode) -> None: ...
    def get_code(self, digest: str) -> LoginCode | None: ...
    def take_code(self, digest: str) -> LoginCode | None:
        """Delete a code and return it; None when there is none, or another transaction takes it."""

    def forget(self, now: datetime, *, limit: int) -> int: ...


class OwnerRows(Protocol):
    """Tenants: the lock behind which quotas are counted, and what is special about one."""

    def lock(self, owner: str, now: datetime) -> Mapping[str, Any]:
        """Lock a tenant, so that no other transaction checks its quotas until this one ends; return its settings."""

    def settings(self, owner: str) -> Mapping[str, Any]: ...
    def put(self, owner: str, settings: Mapping[str, Any], now: datetime) -> None: ...
    def all(self, *, limit: int, after: str | None) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Sealed:
    """A secret as stored: unreadable without the key."""

    name: str
    text: str
    previous: str | None
    previous_until: datetime | None
    created_at: datetime
    updated_at: datetime


class SecretRows(Protocol):
    """Secrets that jobs refer to by name."""

    def get(self, owner: str, name: str) -> Sealed | None: ...
    def put(self, owner: str, secret: Sealed) -> None: ...
    def names(self, owner: str) -> list[Sealed]: ...
    def remove(self, owner: str, name: str) -> bool: ...


class Sealer(Protocol):
    """Encrypts secrets, so that the database alone does not reveal them."""

    def seal(self, owner: str, name: str, text: str) -> str: ...
    def open(self, owner: str, name: str, sealed: str) -> str:
        """Return the text; ``SecretsLocked`` when its key is missing, or the row was changed or belongs elsewhere."""

    def is_current(self, sealed: str) -> bool:
        """Return whether it is sealed with the key that seals now."""
