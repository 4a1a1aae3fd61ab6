"""Cursors of keyset paging: where the next page begins; nothing is skipped or shown twice while rows come and go.

A cursor is opaque to the caller, and harmless: it only says after which row of the caller's own list to go on, and
the caller's own filter is applied again on every page.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from horae.core.checks import whole_number
from horae.errors import InvalidInput

MAX_PAGE = 1000  # rows that are handed out at once
LARGEST = 2**63 - 1  # what a column of numbers can hold


def page_size(limit: int, most: int = MAX_PAGE) -> int:
    """Return how many rows are wanted at once; none, or more than *most*, are refused."""
    return whole_number(limit, "limit", 1, most)


def cursor_from(values: list[Any]) -> str:
    """Write a cursor from the values by which the list is sorted."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(
    cursor: str | None, *kinds: type, least: int = 0, most: int = LARGEST, longest: int = 255
) -> list[Any] | None:
    """Return the values inside, each of its kind and within the bounds; None without a cursor.

    *least* and *most* bound the numbers, *longest* the texts; anything else is refused.
    """
    if cursor is None:
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        fits = isinstance(values, list) and len(values) == len(kinds)
        if not fits or any(type(value) is not kind for value, kind in zip(values, kinds, strict=True)):
            raise ValueError(cursor)
    except (ValueError, UnicodeDecodeError):
        raise not_ours() from None
    for value in values:
        if not (value.isprintable() and len(value) <= longest if type(value) is str else least <= value <= most):
            raise not_ours()
    return list(values)


def last_number(cursor: str) -> int:
    """Return the last value of a cursor that was handed out: the number of a job, behind its end where that leads.

    0 where there is no such number: the list goes on in several databases.
    """
    values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return values[-1] if isinstance(values[-1], int) else 0


def not_ours() -> InvalidInput:
    """Return the refusal of a cursor whose values no list can have given."""
    return InvalidInput("cursor_invalid")
