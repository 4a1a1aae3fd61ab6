"""Spans of time as callers give them: a timedelta, a number of seconds, or text such as ``"5m"``.

The one reader of spans: code, HTTP, the command line, settings and ``jobs.conf`` all read them here.
"""

from __future__ import annotations

import re
from datetime import timedelta

from horae.errors import InvalidInput

Span = timedelta | float | str
UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_TEXT = r"(\d+(\.\d+)?|(?=\d)" + "".join(rf"(\d+(\.\d+)?{unit})?" for unit in UNITS) + ")"
LONGEST_TEXT = 40  # characters: no span needs more
MOST_SECONDS = 10**10  # some three hundred years: more than any calendar of jobs
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[wdhms]?)", re.ASCII)
_WHOLE = re.compile(_TEXT, re.ASCII)


def span(value: Span) -> timedelta:
    """Return a timedelta; a number is taken as seconds, text as :func:`span_from` reads it."""
    if isinstance(value, str):
        return span_from(value)
    try:
        if isinstance(value, timedelta):
            return value
        if isinstance(value, bool):
            raise TypeError
        return timedelta(seconds=value)
    except (TypeError, ValueError, OverflowError):  # no number, NaN, infinity or beyond any calendar
        raise InvalidInput("span_unreadable", value=repr(value)) from None


def span_from(text: str, what: str = "duration") -> timedelta:
    """Read text such as ``90``, ``90s``, ``1.5m``, ``2h``, ``1h30m``, ``1d``, ``1w`` or ``250ms``.

    A bare number is seconds; several units stand from the longest to the shortest.
    """
    seconds = -1.0
    if len(text) <= LONGEST_TEXT and _WHOLE.fullmatch(text):
        seconds = sum(float(number) * UNITS[unit or "s"] for number, unit in _PART.findall(text))
    if not 0 <= seconds < MOST_SECONDS:
        raise InvalidInput("duration_unreadable", text=text[:LONGEST_TEXT], what=what)
    return timedelta(seconds=seconds)
