"""Checks of what a caller in Python may give instead of a number, a list or an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from horae.core.time.instants import aware
from horae.errors import InvalidInput


def whole_number(value: int, what: str, least: int, most: int) -> int:
    """Return a whole number within its bounds; text and True are none."""
    if type(value) is not int:
        raise InvalidInput("type_wrong", name=what, value=repr(value), expected="a whole number")
    if not least <= value <= most:
        raise InvalidInput("out_of_range", name=what, value=value, least=least, most=most)
    return value


def texts(values: Iterable[str], what: str) -> tuple[str, ...]:
    """Return several texts as a tuple. A single text is refused: its characters would be taken for texts."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput("type_wrong", name=what, value=repr(values), expected="a list of texts")
    found = tuple(values)
    if not all(isinstance(each, str) for each in found):
        raise InvalidInput("type_wrong", name=what, value=repr(found), expected="a list of texts")
    return found


def check_instant(value: datetime | None, what: str) -> datetime | None:
    """Return an instant as it was given, or None; refuse what is none, and one without a zone."""
    if value is not None:
        aware(value, what)
    return value
