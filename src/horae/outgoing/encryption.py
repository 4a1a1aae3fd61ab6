"""Secrets at rest: AES-256-GCM with a key that is not in the database.

A sealed text is ``v1.<key>.<nonce and ciphertext>``: which key sealed it, and everything else that is needed to open
it. Owner and name are authenticated with it, so that a row copied to another tenant or name does not open there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from horae.errors import ConfigurationError, MissingExtra, SecretsLocked

if find_spec("cryptography") is None:
    raise MissingExtra("secrets_extra_missing", module="cryptography")

NAME = "HORAE_SECRET_KEY"
KEY_BYTES, NONCE_BYTES = 32, 12
VERSION = "v1"
_HEX = re.compile(r"[0-9a-fA-F]{64}")


class KeySealer:
    """Seals with the first of its keys and opens with any, so that the key itself can be replaced.

    The library that does so takes 7 MB; it is imported where there is a key, which most workers have not.
    """

    def __init__(self, first: bytes, *others: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._keys = {_label(key): AESGCM(key) for key in (first, *others)}
        self._current = _label(first)

    def seal(self, owner: str, name: str, text: str) -> str:
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = self._keys[self._current].encrypt(nonce, text.encode(), _place(owner, name))
        return f"{VERSION}.{self._current}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    def open(self, owner: str, name: str, sealed: str) -> str:
        from cryptography.exceptions import InvalidTag

        version, _, rest = sealed.partition(".")
        label, _, encoded = rest.partition(".")
        if version != VERSION or label not in self._keys:
            raise SecretsLocked("sealing_key_missing", name=name, setting=NAME)
        try:
            content = base64.urlsafe_b64decode(encoded)
            text = self._keys[label].decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], _place(owner, name))
        except (InvalidTag, ValueError):
            raise SecretsLocked("secret_changed", name=name) from None
        return text.decode()

    def is_current(self, sealed: str) -> bool:
        return sealed.startswith(f"{VERSION}.{self._current}.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self._keys)} keys>"


def sealer_from(environment: Mapping[str, str]) -> KeySealer | None:
    """Make a sealer with the key of ``HORAE_SECRET_KEY`` or of ``HORAE_SECRET_KEY_FILE``; None without either.

    With several keys, separated by commas or line breaks, the first seals and all of them open.
    """
    given, file = environment.get(NAME, "").strip(), environment.get(f"{NAME}_FILE", "").strip()
    if not given and file:
        try:
            given = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError("key_file_unreadable", setting=NAME, path=file) from None
    keys = [_key(text) for text in re.split(r"[\s,]+", given) if text]
    if file and not keys:
        raise ConfigurationError("key_file_empty", setting=NAME, path=file)
    return KeySealer(*keys) if keys else None


def _key(text: str) -> bytes:
    """32 bytes in base64, of either alphabet, or in hexadecimal; never repeated in an error."""
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError("key_unreadable", setting=NAME, length=KEY_BYTES)
    return key


def _label(key: bytes) -> str:
    """Return a name for the key that reveals nothing else about it."""
    return hashlib.sha256(b"horae secret key" + key).hexdigest()[:12]


def _place(owner: str, name: str) -> bytes:
    return json.dumps(["horae secret", owner, name]).encode()
