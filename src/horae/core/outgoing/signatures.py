"""Signatures of webhooks, by Standard Webhooks 1.0: they prove the sender and that the message is unchanged.

What is signed is ``id.timestamp.body`` on the exact bytes. While a secret is being replaced a message carries one
signature for each, so that receivers can change over at their own time. Nothing here ever shows a secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta

from horae.core.dataclass import dataclass
from horae.errors import InvalidInput, SignatureRefused

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64  # bytes of a secret
TOLERANCE = timedelta(minutes=5)
MOST_SIGNATURES = 10
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")  # a dot would let id and timestamp run into each other
_SECONDS = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """The bytes that two sides share."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not SHORTEST <= len(self.key) <= LONGEST:
            raise InvalidInput("signing_secret_length_outside", length=len(self.key), least=SHORTEST, most=LONGEST)

    @classmethod
    def read(cls, text: str) -> SigningSecret:
        """Read ``whsec_`` and base64; errors never repeat the text."""
        encoded = text.removeprefix(PREFIX).rstrip("=")
        try:
            key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput("signing_secret_unreadable") from None
        return cls(key)

    def reveal(self) -> str:
        """Return the secret as text, to be shown once to its creator."""
        return PREFIX + base64.b64encode(self.key).decode()

    def __str__(self) -> str:
        return f"{PREFIX}…"

    def sign(self, message_id: str, seconds: int, body: bytes) -> str:
        return "v1," + base64.b64encode(self._digest(message_id, seconds, body)).decode()

    def _digest(self, message_id: str, seconds: int, body: bytes) -> bytes:
        return hmac.new(self.key, f"{message_id}.{seconds}.".encode() + body, hashlib.sha256).digest()


def signed_headers(secrets: Iterable[SigningSecret], message_id: str, body: bytes, *, now: datetime) -> dict[str, str]:
    """Return the three headers of a message; one signature for each secret, the current one first."""
    if not _ID.fullmatch(message_id):
        raise InvalidInput("webhook_id_unreadable", id=message_id[:60])
    seconds = int(now.timestamp())
    signatures = [secret.sign(message_id, seconds, body) for secret in secrets]
    headers = {ID: message_id, TIMESTAMP: str(seconds)}
    return headers | {SIGNATURE: " ".join(signatures)} if signatures else headers


def verify(
    secrets: Iterable[SigningSecret],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime,
    tolerance: timedelta = TOLERANCE,
) -> str:
    """Return the id of a message lately signed by one of these secrets; receivers act once for each id."""
    lowered = {name.lower(): value for name, value in headers.items()}
    message_id, seconds = lowered.get(ID, ""), lowered.get(TIMESTAMP, "")
    if not _ID.fullmatch(message_id) or not _SECONDS.fullmatch(seconds) or not lowered.get(SIGNATURE):
        raise SignatureRefused("signature_headers_missing", headers=[ID, TIMESTAMP, SIGNATURE])
    if abs(now - _instant(seconds)) > tolerance:
        raise SignatureRefused("signature_too_old", tolerance=tolerance.total_seconds())
    given = lowered[SIGNATURE].split(" ", MOST_SIGNATURES)[:MOST_SIGNATURES]
    expected = [secret.sign(message_id, int(seconds), body) for secret in secrets]
    matches = [hmac.compare_digest(one.encode(), other.encode()) for one in expected for other in given]
    if not any(matches):  # all are compared, so that the time taken tells nothing
        raise SignatureRefused("signature_wrong")
    return message_id


def _instant(seconds: str) -> datetime:
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        raise SignatureRefused("signature_time_outside", header=TIMESTAMP) from None
