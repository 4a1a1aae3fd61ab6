"""Times, spans and tables as people read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from horae.words.languages import Language

UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def span(length: timedelta) -> str:
    """Return a length in one unit: ``3 ms``, ``2.5 s``, ``4 min``, ``3 h``, ``12 d``."""
    seconds = abs(length.total_seconds())
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{round(seconds, 1):g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    for size, unit in UNITS:
        if seconds >= size * 1.5:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / 60)} min"


def relative(moment: datetime, now: datetime) -> str:
    away = moment - now
    if abs(away) < timedelta(milliseconds=500):
        return "now"
    return f"in {span(away)}" if away > timedelta(0) else f"{span(away)} ago"


def exact(moment: datetime) -> str:
    """Return a moment in UTC: ``2030-01-07 06:00:00Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def both(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else f"{relative(moment, now)} ({exact(moment)})"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def first_line(text: str | None, width: int = 60) -> str:
    line = (text or "").partition("\n")[0]
    return line if len(line) <= width else line[: width - 1] + "…"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad cells so that columns line up; the last column has any length."""
    cells = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]


def incomplete_text(databases: Collection[str], language: Language, count: int | None = None) -> str:
    """Return the sentence about databases of a cluster that gave no answer; of *count* to which a change was sent."""
    from importlib import import_module  # few installations are clusters

    words = import_module("horae.words.chinese.cluster" if language == "zh" else "horae.words.cluster")
    named = ", ".join(sorted(databases))
    if count is not None:
        partly: str = words.PARTLY_APPLIED
        return partly.format(applied=count - len(databases), count=count, databases=named)
    sentence: str = words.INCOMPLETE
    return sentence.format(databases=named)
