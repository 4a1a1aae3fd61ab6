"""Schedule and fire rows to values and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import lru_cache
from typing import Any

from horae.core.fires import Fire, Schedule
from horae.core.instants import instant
from horae.core.jobs import PRIORITIES
from horae.core.retry import Retry
from horae.stores.dialects import Dialect
from horae.stores.rows import at, to_micros
from horae.stores.tables import schedules

MICROSECOND = timedelta(microseconds=1)
RENAMED = {"number": "id", "key": "schedule_key", "group": "group_name", "after": "follows", "priority": "band"}
NAMES = tuple(field.name for field in fields(Schedule))
# In the order of the value's fields, so that a row becomes a value by position; the retry needs one column more.
SCHEDULE_COLUMNS = (*(RENAMED.get(name, name) for name in NAMES), "max_attempts")
SCHEDULE_SELECT = [schedules.c[name] for name in SCHEDULE_COLUMNS]
SPANS = ("initial_delay", "spread", "grace", "jitter", "timeout", "lock_ttl", "stale_timeout")
INSTANTS = (
    "starts_at",
    "ends_at",
    "paused_at",
    "next_fire_at",
    "next_due_at",
    "last_fire_at",
    "created_at",
    "updated_at",
)
FLAGS = ("lenient", "enabled", "declared", "toggled")
FIRE_COLUMNS = (
    "schedule_id", "kind", "fire_at", "verdict", "reason", "due_at", "last_at", "fire_count", "merged_into", "job_id",
    "recorded_at",
)  # fmt: skip


JSON_COLUMNS = ("payload", "retry", "follows", "sources")


def schedule_columns(dialect: Dialect) -> str:
    """The columns for a driver-level select; JSON is asked for as text."""
    cast = dialect.json_as_text
    return ", ".join(cast.format(name) if name in JSON_COLUMNS else name for name in SCHEDULE_COLUMNS)


@lru_cache(maxsize=1024)
def _retry(text: str, attempts: int) -> Retry:
    return Retry.from_json(json.loads(text), attempts)


@lru_cache(maxsize=1024)
def _keys(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(SPANS, _span),
    **dict.fromkeys(INSTANTS, instant),
    **dict.fromkeys(FLAGS, bool),
    "priority": PRIORITIES.__getitem__,
    "after": _keys,
    "payload": json.loads,
    "sources": json.loads,
}
_CONVERSIONS = [(NAMES.index(name), convert) for name, convert in _CONVERTERS.items()]
_RETRY = NAMES.index("retry")


def schedule_from(row: Sequence[Any]) -> Schedule:
    """A row of SCHEDULE_COLUMNS as a value."""
    *values, attempts = row
    for place, convert in _CONVERSIONS:
        if values[place] is not None:
            values[place] = convert(values[place])
    values[_RETRY] = _retry(values[_RETRY], attempts)
    return Schedule(*values)


def schedule_row(schedule: Schedule) -> dict[str, Any]:
    """The values of every column but the number."""
    row = {RENAMED.get(name, name): getattr(schedule, name) for name in NAMES if name != "number"}
    for name in SPANS:
        row[name] = None if row[name] is None else row[name] // MICROSECOND
    for name in INSTANTS:
        row[name] = to_micros(row[name])
    for name in FLAGS:
        row[name] = None if row[name] is None else int(row[name])
    row["band"] = PRIORITIES.index(schedule.priority)
    row["retry"], row["max_attempts"] = json.dumps(schedule.retry.as_json()), schedule.retry.attempts
    row["follows"] = json.dumps(list(schedule.after))
    row["payload"] = json.dumps(schedule.payload, ensure_ascii=False)
    row["sources"] = json.dumps(dict(schedule.sources))
    return row


def fire_row(schedule_id: int, fire: Fire, job_id: int | None, recorded_at: int) -> tuple[Any, ...]:
    """The values of FIRE_COLUMNS."""
    return (
        schedule_id, fire.kind, to_micros(fire.fire_at), fire.verdict, fire.reason, to_micros(fire.due_at),
        to_micros(fire.last_at), fire.count, to_micros(fire.into), job_id, recorded_at,
    )  # fmt: skip


def fire_from(row: Sequence[Any]) -> tuple[Fire, int | None]:
    """A row of FIRE_COLUMNS as a value, and the number of the job it became."""
    fire = Fire(
        fire_at=instant(row[2]),
        verdict=row[3],
        kind=row[1],
        reason=row[4],
        due_at=at(row[5]),
        last_at=at(row[6]),
        count=row[7],
        into=at(row[8]),
    )
    return fire, row[9]
