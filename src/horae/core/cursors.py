"""Cursors of keyset paging: where the next page begins; nothing is skipped or shown twice while rows come and go.

A cursor is opaque to the caller, and harmless: it only says after which row of the caller's own list to go on, and
the caller's own filter is applied again on every page.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from horae.errors import InvalidInput


def cursor_from(values: list[Any]) -> str:
    """Write a cursor from the values by which the list is sorted."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None, *kinds: type) -> list[Any] | None:
    """Return the values inside, each of its kind; None without a cursor. Anything else is refused."""
    if cursor is None:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        fits = isinstance(values, list) and len(values) == len(kinds)
        if not fits or any(type(value) is not kind for value, kind in zip(values, kinds, strict=True)):
            raise ValueError(cursor)
    except (ValueError, UnicodeDecodeError):
        raise not_ours() from None
    return list(values)


def not_ours() -> InvalidInput:
    """Return the refusal of a cursor whose values no list can have given."""
    return InvalidInput("cursor_invalid")
