"""Sessions of browsers and one-time login codes for the console.

A session stands for an access token: it has the same caller, and ends when the token is revoked or expires, at the
latest after a week, or after half a day without a request. Only digests of secrets are kept. Each session has a secret
of its own for forms (CSRF), which is masked anew in every answer, so that a compressed answer gives nothing away.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import datetime, timedelta

from horae.core.access.callers import Caller, digest_of
from horae.core.dataclass import dataclass

IDLE = timedelta(hours=12)  # without a request
LONGEST = timedelta(days=7)
CODE_LIFE = timedelta(minutes=10)
SEEN_EVERY = timedelta(minutes=1)  # precision of "last seen", so that not every request writes
ID_LENGTH = 12
SECRET_LENGTH = 64  # hexadecimal: 256 bits
CODE_LENGTH = 40  # hexadecimal: 160 bits
_COOKIE = re.compile(rf"([0-9a-f]{{{ID_LENGTH}}})\.([0-9a-f]{{{SECRET_LENGTH}}})")
_CODE = re.compile(rf"[0-9a-f]{{{CODE_LENGTH}}}")
_MASKED = re.compile(rf"[0-9a-f]{{{2 * SECRET_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is logged in."""

    session_id: str
    digest: str
    csrf: str
    owner: str
    scopes: tuple[str, ...]
    actor: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime  # whatever happens
    queues: tuple[str, ...] = ()
    token_id: str | None = None  # None: a JWT, whose end is in expires_at
    address: str | None = None

    @property
    def ends_at(self) -> datetime:
        """When it ends unless another request comes."""
        return min(self.expires_at, self.seen_at + IDLE)

    @property
    def caller(self) -> Caller:
        return Caller(
            self.owner,
            frozenset(self.scopes),
            self.actor,
            frozenset(self.queues),
            self.token_id,
            self.expires_at,
            session_id=self.session_id,
        )


@dataclass(frozen=True, slots=True)
class LoginCode:
    """A code that logs one browser in, once."""

    digest: str
    token_id: str
    created_at: datetime
    expires_at: datetime


def cookie_text(session_id: str, secret: str) -> str:
    return f"{session_id}.{secret}"


def parse_cookie(text: str) -> tuple[str, str] | None:
    """Return id and secret of a session's cookie; None for any other text."""
    found = _COOKIE.fullmatch(text)
    return None if found is None else (found[1], found[2])


def is_secret_of(session: Session, secret: str) -> bool:
    """Return whether the secret belongs to the session, in constant time."""
    return hmac.compare_digest(session.digest, digest_of(secret))


def is_code(text: str) -> bool:
    """Return whether a text has the form of a login code."""
    return _CODE.fullmatch(text) is not None


def mask_csrf(secret: str, pad: str) -> str:
    """Return a form's token: the secret behind a random pad of the same length, both hexadecimal."""
    return pad + _xor(secret, pad)


def is_csrf_of(secret: str, given: str) -> bool:
    """Return whether a form's token belongs to the secret, in constant time."""
    if not _MASKED.fullmatch(given):
        return False
    return hmac.compare_digest(_xor(given[:SECRET_LENGTH], given[SECRET_LENGTH:]), secret)


def csrf_of(visitor: str) -> str:
    """Return the secret for forms of a browser without a session, from the text of its own cookie."""
    return hashlib.sha256(f"csrf {visitor}".encode()).hexdigest()


def _xor(one: str, other: str) -> str:
    return f"{int(one, 16) ^ int(other, 16):0{SECRET_LENGTH}x}"
