"""Secrets by name: a payload says where one belongs with ``{"$secret": "name"}`` and never holds it.

References are resolved just before a call, and what comes of that is never stored. Whatever comes back from outside is
cleaned of what was put in. No error here repeats a name that is not one: it may be the secret itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from horae.core.access.masking import MASK as MASK
from horae.core.access.masking import hide_secrets as hide_secrets
from horae.errors import InvalidInput, InvalidName

REFERENCE = "$secret"
SHORTEST, LONGEST = 8, 8192  # characters; a shorter one is guessed, and could not be hidden without hiding words
MOST_REFERENCES = 20  # in one message
_NAME = re.compile(r"(?!whsec_)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def secret_name(text: Any) -> str:
    """Return a name for a secret; a secret in its place is refused."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise InvalidName("secret_name_unreadable")
    return text


def secret_text(text: Any) -> str:
    """Return what may be kept as a secret: text that can be sent, long enough to be one."""
    if not isinstance(text, str) or not SHORTEST <= len(text) <= LONGEST:
        raise InvalidInput("secret_length_outside", least=SHORTEST, most=LONGEST)
    if "\x00" in text or not _is_text(text) or text != text.strip():
        raise InvalidInput("secret_not_plain")
    return text


def reference_of(value: Any) -> str | None:
    """Return the name in ``{"$secret": "name"}``; None for anything that is no reference."""
    if not isinstance(value, dict) or REFERENCE not in value:
        return None
    if len(value) > 1:
        raise InvalidInput("reference_unreadable", key=REFERENCE)
    return secret_name(value[REFERENCE])


def references(value: Any) -> list[str]:
    """Return the names that a JSON value refers to, each once."""
    names = list(dict.fromkeys(_references(value)))
    if len(names) > MOST_REFERENCES:
        raise InvalidInput("too_many_references", count=len(names), most=MOST_REFERENCES)
    return names


def resolve_references(value: Any, texts: Mapping[str, str]) -> Any:
    """Return the value with every reference replaced by the secret it names."""
    name = reference_of(value)
    if name is not None:
        return texts[name]
    if isinstance(value, dict):
        return {key: resolve_references(each, texts) for key, each in value.items()}
    return [resolve_references(each, texts) for each in value] if isinstance(value, list) else value


def _references(value: Any) -> Iterator[str]:
    name = reference_of(value)
    if name is not None:
        yield name
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _references(each)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
