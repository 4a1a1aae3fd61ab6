"""One entry of another scheduler, as it would become a schedule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any

from horae.core.dataclass import dataclass
from horae.core.schedules.notes import Note
from horae.errors import InvalidCron

# Fields that every import sets, so that a repeated one also resets what an earlier one had set.
CRON_DEFAULTS = {"day_match": "and", "lenient": False}
LONGEST_KEY = 200


@dataclass(frozen=True)
class Entry:
    """What was read: where it stood, its key, what makes its schedule, and what changes in meaning.

    ``refusal`` says why it cannot be brought; ``timing`` is empty then. ``enabled`` holds only for a new schedule.
    """

    origin: str
    key: str
    timing: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    refusal: Note | None = None
    enabled: bool = True


class NotBrought(Exception):
    """An entry that has no counterpart; ends the reading of that entry only."""

    def __init__(self, code: str, **values: Any) -> None:
        super().__init__(code)
        self.note = Note(code, values)


def cron_timing(expression: str, zone: str, day_match: str = "and") -> tuple[dict[str, Any], list[Note]]:
    """Return the fields of a cron rule: strict where strict cron can read it, else the wider dialect."""
    from horae.core.time.cron import Cron

    timing: dict[str, Any] = {"cron": expression, "zone": zone, **CRON_DEFAULTS, "day_match": day_match}
    try:
        Cron(expression, zone, day_match=day_match)  # type: ignore[arg-type]  # Cron checks it
    except InvalidCron:
        Cron(expression, zone, day_match=day_match, lenient=True)  # type: ignore[arg-type]  # Cron checks it
        return timing | {"lenient": True}, [Note("lenient")]
    return timing, []


def interval_timing(period: timedelta) -> dict[str, Any]:
    """Return the fields of an interval that first fires one period after it was made, as elsewhere."""
    return {"every": period, "initial_delay": period}


def key_from(text: str) -> str:
    """Return text as a key: printable, on one line, not too long."""
    return re.sub(r"\s+", " ", "".join(each if each.isprintable() else " " for each in text)).strip()[:LONGEST_KEY]


def instant(value: Any) -> datetime | None:
    """Return a stored instant; one without an offset is UTC, as Django stores it."""
    if value is None:
        return None
    moment: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
