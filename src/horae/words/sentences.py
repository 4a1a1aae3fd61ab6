"""The sentence of an error, from its reason and its facts.

A sentence says what is wrong, then what to do. Its placeholders are the facts; ``{name!r}`` and the formats of numbers
are Python's, a list is read with commas (``{circle:path}`` with arrows, ``{problems:lines}`` line by line), and
``{wait:span}`` reads seconds as hours, minutes and days.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from string import Formatter
from typing import Any

from horae.words import (
    access,
    attention,
    audit,
    cli,
    common,
    declarations,
    jobs,
    mcp,
    outgoing,
    runtime,
    scheduled_tasks,
    schedules,
    secrets,
    service,
    settings,
    statistics,
    stores,
)

ROOMS: dict[str, Mapping[str, str]] = {
    "common": common.ERRORS,
    "jobs": jobs.ERRORS,
    "schedules": schedules.ERRORS,
    "scheduled_tasks": scheduled_tasks.ERRORS,
    "attention": attention.ERRORS,
    "access": access.ERRORS,
    "audit": audit.ERRORS,
    "secrets": secrets.ERRORS,
    "statistics": statistics.ERRORS,
    "outgoing": outgoing.ERRORS,
    "service": service.ERRORS,
    "stores": stores.ERRORS,
    "mcp": mcp.ERRORS,
    "declarations": declarations.ERRORS,
    "runtime": runtime.ERRORS,
    "settings": settings.ERRORS,
    "command_line": cli.ERRORS,
}
JOINED = {"lines": "\n", "path": " → "}  # how a list is read, where it is not with commas
ENGLISH = {reason: text for table in ROOMS.values() for reason, text in table.items()}


def sentence(reason: str, facts: Mapping[str, Any], table: Mapping[str, str] = ENGLISH) -> str | None:
    """Return the sentence of a reason; None for a text that is no reason, or one without its facts.

    *table* is another one than that of the errors.
    """
    template = table.get(reason)
    if template is None:
        return None
    try:
        return _WORDS.vformat(template, (), facts).rstrip()
    except KeyError:  # a user's own error may have such a word as its text
        return None


class _Words(Formatter):
    """Fills a template."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, list | tuple):
            return JOINED.get(format_spec, ", ").join(str(each) for each in value) or "none"
        try:
            return str(timedelta(seconds=value)) if format_spec == "span" else format(value, format_spec)
        except (OverflowError, TypeError, ValueError):  # a value that does not fit may be what the error is about
            return str(value)


_WORDS = _Words()
