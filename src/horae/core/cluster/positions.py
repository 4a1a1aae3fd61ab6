"""Where a list over several databases goes on: a position in each of them, in one cursor."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from horae.core.cursors import cursor_from, not_ours

MARK = "shards"  # how such a cursor begins; that of one database begins with a value of its own order
MOST = 1024  # databases


def write_positions(positions: Mapping[int, str | None]) -> str:
    """Write the cursor of each database that has more, by its number; None where it has not begun."""
    return cursor_from([MARK, *(part for pair in sorted(positions.items()) for part in pair)])


def read_positions(cursor: str) -> dict[int, str | None]:
    """Return the cursor of each database that has more; anything that we have not written is refused."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, UnicodeDecodeError):
        raise not_ours() from None
    if not isinstance(values, list) or values[:1] != [MARK] or len(values) % 2 == 0 or len(values) > 2 * MOST:
        raise not_ours()
    found: dict[int, str | None] = {}
    for number, at in zip(values[1::2], values[2::2], strict=True):
        if type(number) is not int or not (at is None or isinstance(at, str)):
            raise not_ours()
        found[number] = at
    return found
