"""Secrets by name: a payload says which secret is meant and never holds one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

from horae.actions.access.secrets import open_secret
from horae.core.access.secrets import secret_name, secret_text
from horae.core.outgoing.signatures import PREFIX, SigningSecret
from horae.errors import SecretsLocked
from horae.ports.access import Sealer
from horae.ports.world import World

RANDOM_BYTES = 32


class Keyring(Protocol):
    """Stores secrets; each belongs to one owner, who alone can use it."""

    def texts(self, owner: str, name: str) -> Sequence[str]:
        """Return the secret under this name, then those it replaces that still count; none if the name is unknown."""


def new_secret() -> SigningSecret:
    """Return a fresh secret; show it once with ``reveal()``."""
    return SigningSecret(secrets.token_bytes(RANDOM_BYTES))


class MemoryKeyring:
    """Secrets that this process was given when it started."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[str, ...]] = {}

    def put(self, owner: str, name: str, *texts: str) -> None:
        """Keep secrets under a name, the current one first; none forgets the name. Those that sign are ``whsec_…``."""
        for text in texts:
            if secret_text(text).startswith(PREFIX):
                SigningSecret.read(text)
        self._texts[owner, secret_name(name)] = texts

    def texts(self, owner: str, name: str) -> Sequence[str]:
        return self._texts.get((owner, name), ())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._texts)} names>"


class StoreKeyring:
    """Secrets that tenants keep in the store, opened with a key that is not there."""

    def __init__(self, opens: Callable[[], World], sealer: Sealer | None) -> None:
        self._opens, self._sealer = opens, sealer

    def texts(self, owner: str, name: str) -> Sequence[str]:
        if self._sealer is None:
            raise SecretsLocked("worker_without_secret_key")
        return open_secret(self._opens(), self._sealer, name, owner=owner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self._sealer!r}>"
