"""Values that only handlers may see: which they are, what readers see in their place, and how edits keep them.

A value is sensitive by its name, such as ``password`` or ``api_key``, or because its definition says so. What a reader
sends back with the mask in it means the value that was there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from horae.core.access.callers import mask_tokens
from horae.core.access.masking import hide_secrets
from horae.errors import InvalidPayload

MASK = "[masked]"
SHORTEST = 4  # letters of a value that is looked for in error texts; shorter ones are found in ordinary words
ALONE = frozenset(
    {"password", "passwd", "pwd", "passphrase", "secret", "token", "authorization", "credential", "credentials",
     "apikey"}
)  # fmt: skip
PAIRS = frozenset({("api", "key"), ("access", "key"), ("private", "key"), ("set", "cookie")})
ABOUT = frozenset({"at", "count", "id", "limit", "name", "type"})  # a name that ends so is about a secret, and is none
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = re.compile(
    r"(?i)\b((?:[\w-]*(?:password|passwd|secret|token|api[_-]?key|authorization|credential)[\w-]*)"
    r"['\"]?\s*[=:]\s*['\"]?(?:bearer\s+|basic\s+)?)([^\s'\",;&]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_PASSWORD_IN_URL = re.compile(r"(\w://[^\s/:@]*):[^\s/@]+@")


def is_sensitive(name: str, declared: Collection[str] = ()) -> bool:
    """Return whether values of this name are masked: the definition says so, or the name does."""
    if name in declared:
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in ABOUT:
        return False
    return not ALONE.isdisjoint(words) or any(pair in PAIRS for pair in pairwise(words))


def mask(value: Any, declared: Collection[str] = ()) -> Any:
    """Return a JSON value with a mask in the place of every sensitive one; what has none is returned as it is."""
    if isinstance(value, Mapping):
        masked = {name: _masked(name, each, declared) for name, each in value.items()}
        return masked if any(masked[name] is not value[name] for name in masked) else value
    if isinstance(value, list | tuple):
        items = [mask(each, declared) for each in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _masked(name: str, value: Any, declared: Collection[str]) -> Any:
    if value is None or value == "" or not is_sensitive(str(name), declared):
        return mask(value, declared)
    return value if isinstance(value, bool) and name not in declared else MASK


def secrets_of(value: Any, declared: Collection[str] = ()) -> set[str]:
    """Return the texts that are masked in a value, to be looked for where they may be repeated."""
    return {text for text in _hidden(value, declared) if len(text) >= SHORTEST}


def _hidden(value: Any, declared: Collection[str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if is_sensitive(str(name), declared):
                yield from _texts(each)
            else:
                yield from _hidden(each, declared)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _hidden(each, declared)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def mask_text(text: str, secrets: Collection[str] = ()) -> str:
    """Return an error's text without what looks like a secret, and without these, however they are encoded or cut."""
    text = hide_secrets(text, secrets) if secrets else text
    for secret in sorted(secrets, key=len, reverse=True):  # the short ones too
        text = text.replace(secret, "…")
    text = _SECRET.sub(r"\1…", mask_tokens(text))
    return _PASSWORD_IN_URL.sub(r"\1:…@", _BEARER.sub(r"\1 …", text))


def unmask(edited: Any, before: Any, at: str = "payload") -> Any:
    """Return an edited value with the former values in the place of masks; refuse a mask where there was none."""
    if edited == MASK:
        if before is None:
            raise InvalidPayload("mask_without_value", at=at, mask=MASK)
        return before
    if isinstance(edited, Mapping):
        known = before if isinstance(before, Mapping) else {}
        return {name: unmask(each, known.get(name), f"{at}.{name}") for name, each in edited.items()}
    if isinstance(edited, list | tuple):
        # In a list of another length it is not known which value is meant.
        same = isinstance(before, list | tuple) and len(before) == len(edited)
        known_items = list(before) if same else [None] * len(edited)
        return [unmask(each, known_items[index], f"{at}[{index}]") for index, each in enumerate(edited)]
    return edited
