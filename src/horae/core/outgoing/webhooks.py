"""What a webhook may say: where it goes, which headers it sets, which secrets it names.

Checked twice by the same code: when a payload is saved, so that no credential is ever stored in one, and when it is
sent, with every secret in its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from horae.core.access.secrets import reference_of, references, secret_name
from horae.core.jobs.job import WEBHOOK
from horae.errors import InvalidInput, InvalidPayload

if TYPE_CHECKING:
    from horae.core.outgoing.targets import Rules

KEYS = ("url", "body", "headers", "secret")
MOST_HEADERS = 20
CREDENTIALS = "authorization"  # only by reference: a payload is stored, and shown
# What else carries credentials by its name, or by how its value begins.
_CREDENTIAL_NAME = re.compile(
    r"(^|[-_])(proxy-authorization|authori[sz]ation|auth|token|secret|passw(or)?d|credentials?|jwt|session|cookie"
    r"|(api|access|private)[-_]?key)([-_]|$)",
    re.IGNORECASE,
)
_CREDENTIAL_VALUE = re.compile(r"\s*(bearer|basic|digest|apikey|token)\s+\S", re.IGNORECASE)
_USER_IN_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*@")
_HEADER = re.compile(r"accept-language|ce-[a-z0-9]{1,20}|x-(?!forwarded-|real-ip|http-method|original-)[a-z0-9-]{1,60}")
_VALUE = re.compile(r"[\x20-\x7e]{0,1024}")


def check_webhook(payload: Mapping[str, Any], rules: Rules) -> None:
    """Refuse a payload that could never be delivered; the address is checked again whenever it is connected to."""
    unknown = sorted(set(payload) - set(KEYS))
    if unknown:
        raise InvalidPayload("webhook_key_unknown", key=unknown[0][:60], choices=list(KEYS))
    refuse_credentials(WEBHOOK, payload)
    url, headers = payload.get("url"), payload.get("headers") or {}
    if reference_of(url) is None:
        if not isinstance(url, str):
            raise InvalidPayload("webhook_url_missing")
        from horae.core.outgoing.targets import target_of

        rules.check(target_of(url))
    references([payload.get("body"), headers])
    plain = headers.items() if isinstance(headers, dict) else ()
    checked_headers({name: "" if reference_of(value) else value for name, value in plain} or headers, headers)
    signing_name(payload.get("secret"))


def refuse_credentials(handler: str, payload: Any) -> None:
    """Refuse a webhook with credentials as plain text: they would be stored, and shown to all who may read the job.

    Every path that stores a payload checks it. The error repeats neither the credentials nor the header.
    """
    if handler != WEBHOOK or not isinstance(payload, Mapping):
        return
    url, headers = payload.get("url"), payload.get("headers")
    if isinstance(url, str) and _USER_IN_URL.match(url):
        raise InvalidPayload("webhook_url_has_credentials")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        is_plain = isinstance(value, str) and bool(value.strip())
        if is_plain and (_CREDENTIAL_NAME.search(str(name)) or _CREDENTIAL_VALUE.match(value)):
            raise InvalidPayload("webhook_credentials_in_payload")


def signing_name(secret: Any) -> str | None:
    """Return the name in ``"name"`` or ``{"$secret": "name"}``; None where nothing is to be signed."""
    if secret is None:
        return None
    name = secret_name(secret) if isinstance(secret, str) else reference_of(secret)
    if name is None:
        raise InvalidInput("webhook_secret_not_named")
    return name


def checked_headers(headers: Mapping[str, str], written: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Headers that a payload may set: its own ``x-…`` ones, and credentials if they were *written* as a reference.
    None that routes or describes the message.
    """
    if not isinstance(headers, dict) or len(headers) > MOST_HEADERS:
        raise InvalidInput("webhook_headers_unreadable", most=MOST_HEADERS)
    for name, value in headers.items():
        if name.lower() == CREDENTIALS and reference_of((written or headers)[name]) is None:
            raise InvalidInput("webhook_credentials_in_header")
        if name.lower() != CREDENTIALS and not _HEADER.fullmatch(name.lower()):
            raise InvalidInput("webhook_header_refused", name=name[:60])
        if not isinstance(value, str) or not _VALUE.fullmatch(value) or value != value.strip():
            raise InvalidInput("webhook_header_value_refused", name=name[:60])
    return {name.lower(): value for name, value in headers.items()}
