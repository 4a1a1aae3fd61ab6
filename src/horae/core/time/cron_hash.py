"""``H`` in cron: a number that follows from the name of a schedule, so that many schedules do not coincide.

``H 3 * * *`` is one minute past three for each schedule, and the same one for ever. The text is replaced once, when a
schedule is made or changed: what is stored, shown and computed with is ordinary cron.
"""

from __future__ import annotations

import hashlib
import re

from horae.core.time.cron_hints import Field, Mistake, refuse_field
from horae.core.time.cron_text import DAY, HOUR, MINUTE, MONTH, SECOND, WEEKDAY

_FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_HASHED = re.compile(r"H(?:\(([0-9]{1,4})-([0-9]{1,4})\))?(?:/([0-9]{1,4}))?", re.IGNORECASE)
_LAST_DAY = 28  # that every month has


def spread_by_hash(expression: str, name: str, *, lenient: bool = False) -> str:
    """Return an expression with every ``H``, ``H(0-29)``, ``H/15`` and ``H(0-29)/10`` replaced by numbers."""
    columns = expression.split() if isinstance(expression, str) else []
    if len(columns) not in (5, 6) or not re.search(r"(^|[\s,])H", expression, re.IGNORECASE):
        return expression
    replaced = []
    for column, (field, text) in enumerate(zip(_FIELDS[-len(columns) :], columns, strict=True)):
        try:
            replaced.append(_column(field, text, name))
        except Mistake as mistake:
            raise refuse_field(expression, field, column, mistake, lenient) from None
    return " ".join(replaced)


def _column(field: Field, text: str, name: str) -> str:
    items, offset = [], 0
    for item in text.split(","):
        match = _HASHED.fullmatch(item)
        items.append(item if match is None else _item(field, match, offset, name))
        offset += len(item) + 1
    return ",".join(items)


def _item(field: Field, match: re.Match[str], offset: int, name: str) -> str:
    """Return a number, or a progression that begins at one."""
    highest = _LAST_DAY if field is DAY else field.high
    low, high = (field.low, highest) if match[1] is None else (int(match[1]), int(match[2]))
    if not field.low <= low <= high <= field.high:
        raise Mistake(offset + 1, match[0], f"H takes a range inside the field: H({field.low}-{highest}).")
    digest = int.from_bytes(hashlib.sha256(f"{field.name} {name}".encode()).digest()[:8], "big")
    if match[3] is None:
        return str(low + digest % (high - low + 1))
    step = int(match[3])
    if not 1 <= step <= high - low:
        raise Mistake(offset + match.start(3), match[3], f"A step is a number from 1 to {high - low}.")
    return f"{low + digest % step}-{high}/{step}"
