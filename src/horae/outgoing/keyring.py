"""Secrets by name: a payload says which secret signs it and never holds one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

from horae.core.signatures import SigningSecret

RANDOM_BYTES = 32


class Keyring(Protocol):
    """Where signing secrets are kept; each belongs to one owner, who alone can sign with it."""

    def secrets(self, owner: str, name: str) -> Sequence[SigningSecret]:
        """The secrets under this name, the current one first, then those being replaced; none if it is unknown."""


def new_secret() -> SigningSecret:
    """A fresh one; show it once with ``reveal()``."""
    return SigningSecret(secrets.token_bytes(RANDOM_BYTES))


class MemoryKeyring:
    """Secrets that this process was given when it started."""

    def __init__(self) -> None:
        self._secrets: dict[tuple[str, str], tuple[SigningSecret, ...]] = {}

    def put(self, owner: str, name: str, *texts: str) -> None:
        """Keep ``whsec_…`` secrets under a name, the current one first; none forgets the name."""
        self._secrets[owner, name] = tuple(SigningSecret.read(text) for text in texts)

    def secrets(self, owner: str, name: str) -> Sequence[SigningSecret]:
        return self._secrets.get((owner, name), ())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._secrets)} names>"
