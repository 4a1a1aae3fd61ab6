"""JWTs of the house's own login: verified here, issued elsewhere.

What is allowed comes from the configuration, never from the token: a secret means HS256 and nothing else, a key set
means public keys and never a secret. Times are compared with the world's clock. ``sub`` is the tenant.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt

from horae.core.access.callers import Caller, scopes_from
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.errors import ConfigurationError, InvalidInput, KeysUnavailable, Unauthorized

log = logging.getLogger("horae.service")
LOOKS_LIKE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
LONGEST = 8192  # characters of a token
SHORTEST_SECRET = 32  # bytes, as RFC 7518 3.2 demands
LEEWAY = timedelta(seconds=60)
LATEST = datetime.max.replace(tzinfo=UTC)
PUBLIC = {"RSA": ("RS256",), "EC": ("ES256",), "OKP": ("EdDSA",)}
WITHOUT_CLAIM = frozenset({"tasks"})  # scopes of a token without a scope claim
FRESH = 600.0  # seconds that a key set is used without asking again
ASK_AGAIN = 60.0  # seconds between two fetches, whatever tokens come
MOST_BYTES = 256 * 1024
Fetch = Callable[[str], bytes]


@dataclass(frozen=True)
class Rules:
    """The requirements for a JWT."""

    secret: str | None = None
    jwks_url: str | None = None
    issuer: str | None = None
    audience: str | None = None
    scopes: frozenset[str] = WITHOUT_CLAIM

    def __post_init__(self) -> None:
        if self.secret is not None and self.jwks_url is not None:
            raise ConfigurationError("jwt_secret_and_keys")
        if self.secret is not None and len(self.secret.encode()) < SHORTEST_SECRET:
            raise ConfigurationError("jwt_secret_too_short", least=SHORTEST_SECRET)
        if self.jwks_url is not None and not _is_safe(self.jwks_url):
            raise ConfigurationError("jwt_keys_url_unsafe")
        scopes_from(self.scopes)

    @property
    def are_any(self) -> bool:
        return self.secret is not None or self.jwks_url is not None

    def require_whole(self) -> None:
        """Refuse to start a service that would accept what the same login made for another one."""
        if self.are_any and not (self.issuer and self.audience):
            missing = "HORAE_JWT_AUDIENCE" if self.issuer else "HORAE_JWT_ISSUER"
            raise ConfigurationError("jwt_setting_missing", setting=missing)


def _is_safe(url: str) -> bool:
    """Return whether a URL cannot be tampered with on the way: https, or on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


class Recogniser:
    """Recognise callers by their JWT; return None for a text that is not one."""

    def __init__(
        self,
        rules: Rules,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        fetch: Fetch | None = None,
    ) -> None:
        self._rules = rules
        self._now = now
        self._keys = None if rules.jwks_url is None else KeySet(rules.jwks_url, monotonic, fetch or fetch_keys)

    def __call__(self, text: str) -> Caller | None:
        if not LOOKS_LIKE.fullmatch(text):
            return None
        if len(text) > LONGEST:
            raise Unauthorized("jwt_invalid")
        claims = self._claims(text)
        expires_at = self._check_times(claims)
        owner = claims["sub"]
        if not isinstance(owner, str) or owner == SYSTEM:
            raise Unauthorized("jwt_without_user")
        try:
            label(owner, "user's id")
        except InvalidInput as problem:
            raise Unauthorized("jwt_user_unreadable", problem=str(problem)) from None
        return Caller(owner, scopes_of(claims) & self._rules.scopes, f"user/{owner}", expires_at=expires_at)

    def _claims(self, text: str) -> dict[str, Any]:
        """Return the claims of a token, with its signature verified."""
        key, algorithms = self._key_for(text)
        options: Any = {
            "require": ["exp", "sub"],
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "verify_sub": False,
            "verify_aud": self._rules.audience is not None,
        }
        try:
            return jwt.decode(
                text,
                key,
                algorithms=list(algorithms),
                audience=self._rules.audience,
                issuer=self._rules.issuer,
                options=options,
            )
        except jwt.MissingRequiredClaimError as problem:
            raise Unauthorized("jwt_claim_missing", claim=problem.claim) from None
        except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError):
            raise Unauthorized("jwt_invalid") from None

    def _key_for(self, text: str) -> tuple[Any, tuple[str, ...]]:
        if self._keys is None:
            return self._rules.secret, ("HS256",)
        try:
            kid = jwt.get_unverified_header(text).get("kid")
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            raise Unauthorized("jwt_invalid") from None
        found = self._keys.find(kid if isinstance(kid, str) else None)
        if found is None:
            raise Unauthorized("jwt_invalid")
        return found

    def _check_times(self, claims: dict[str, Any]) -> datetime:
        """Refuse a token outside its time; return when it expires."""
        now = self._now().timestamp()
        try:
            expires, begins = float(claims["exp"]), float(claims.get("nbf", 0))
        except (TypeError, ValueError, OverflowError):
            raise Unauthorized("jwt_times_unreadable") from None
        if not expires > now - LEEWAY.total_seconds():
            raise Unauthorized("jwt_expired")
        if not begins <= now + LEEWAY.total_seconds():
            raise Unauthorized("jwt_not_yet_valid")
        try:
            return datetime.fromtimestamp(expires, UTC) + LEEWAY
        except (ValueError, OverflowError, OSError):  # so far ahead that no calendar has it
            return LATEST


def scopes_of(claims: dict[str, Any]) -> frozenset[str]:
    """Return the scopes of a token: ``scope`` as text (RFC 8693) or ``scopes`` as a list; without either ``tasks``."""
    scopes = claims.get("scope", claims.get("scopes"))
    if scopes is None:
        return WITHOUT_CLAIM
    words = scopes.split() if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    return frozenset(word for word in words if isinstance(word, str))


# -- keys ----------------------------------------------------------------------------------------------------------


class KeySet:
    """Public keys by id, fetched again when they are old; for an unknown id at most once a minute.

    While the URL does not answer, the last keys stay in use.
    """

    def __init__(self, url: str, monotonic: Callable[[], float], fetch: Fetch) -> None:
        self._url = url
        self._monotonic = monotonic
        self._fetch = fetch
        self._lock = threading.Lock()
        self._keys: dict[str | None, tuple[Any, tuple[str, ...]]] | None = None
        self._asked_at = float("-inf")

    def find(self, kid: str | None) -> tuple[Any, tuple[str, ...]] | None:
        age = self._monotonic() - self._asked_at
        known = self._keys
        if known is None or age > FRESH or (kid not in known and age > ASK_AGAIN):
            known = self._refresh()
        if known is None:
            raise KeysUnavailable("jwt_keys_unavailable", ASK_AGAIN)
        if kid is None:
            return next(iter(known.values())) if len(known) == 1 else None
        return known.get(kid)

    def _refresh(self) -> dict[str | None, tuple[Any, tuple[str, ...]]] | None:
        """Fetch the keys once for all threads that wait for them."""
        with self._lock:
            if self._monotonic() - self._asked_at > ASK_AGAIN or self._asked_at == float("-inf"):
                self._asked_at = self._monotonic()
                try:
                    self._keys = keys_from(self._fetch(self._url))
                except (httpx.HTTPError, OSError, ValueError, RecursionError) as problem:
                    log.error("the keys for JWTs at %s cannot be fetched: %s", self._url, problem)
            return self._keys


def keys_from(text: bytes) -> dict[str | None, tuple[Any, tuple[str, ...]]]:
    """Return the usable signing keys of a JWKS (RFC 7517); never a symmetric one."""
    document = json.loads(text)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("there is no list of keys")
    found: dict[str | None, tuple[Any, tuple[str, ...]]] = {}
    for each in listed[:100]:
        algorithms = PUBLIC.get(str(each.get("kty"))) if isinstance(each, dict) else None
        if algorithms is None or each.get("use", "sig") != "sig" or each.get("alg", algorithms[0]) not in algorithms:
            continue
        try:
            found[each.get("kid")] = (jwt.PyJWK(each, algorithm=algorithms[0]).key, algorithms)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError) as problem:
            log.warning("a key for JWTs cannot be used: %s", problem)
    return found


def fetch_keys(url: str) -> bytes:
    """Fetch a key set, with limits on time and size, and without following redirects."""
    timeout = httpx.Timeout(5.0)
    with httpx.stream("GET", url, timeout=timeout, follow_redirects=False) as answer:
        if answer.status_code != 200:
            raise OSError(f"it answers {answer.status_code}")
        parts, size = [], 0
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise OSError(f"it is longer than {MOST_BYTES} bytes")
    return b"".join(parts)
