"""Jobs on the way: stored in the database of a caller's transaction, whose shard is kept by another database.

Such a job has its number at once, with the virtual shard inside, and goes to that shard as a message. What it is to be
is written as JSON and read back as the very value that the caller's transaction would have stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any

from horae.core.audit.entries import Entry, PrivateReason
from horae.core.dataclass import dataclass
from horae.core.jobs.expectations import Expected
from horae.core.jobs.gathered_jobs import Gather
from horae.core.jobs.job import NewJob
from horae.core.time.instants import MICROSECOND, instant, micros

JOB: str = "job"  # the kind of its message
SENDER = 0  # of its message: it belongs to the database where it waits, and moves with no shard
ON_THE_WAY = "sent"  # why it is held, as long as it has not arrived

_Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class SentJob:
    """A job on the way: its number, when it was stored, and what it is to be."""

    number: int
    created_at: datetime
    job: NewJob


def write_job(job: NewJob) -> str:
    """Return a new job as text; what has its default is left out."""
    given = {name: value for name, value in asdict(job).items() if name != "number" and value != _DEFAULTS.get(name)}
    return json.dumps(given, default=_plain, ensure_ascii=False, separators=(",", ":"))


def read_job(text: str, number: int) -> NewJob:
    """Return the job of a text, with the number that was given to it."""
    given: dict[str, Any] = json.loads(text)
    read: dict[str, Any] = {
        name: convert(given[name]) for name, convert in _READ.items() if given.get(name) is not None
    }
    return NewJob(**given | read, number=number)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, timedelta):
        return value // MICROSECOND
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _span(value: int) -> timedelta:
    return value * MICROSECOND


def _entry(value: dict[str, Any]) -> Entry:
    reason = value["private_reason"]
    value |= {"at": instant(value["at"]), "evidence": tuple(value["evidence"])}
    return Entry(**value | {"private_reason": None if reason is None else PrivateReason(**reason)})


def _expected(value: dict[str, Any]) -> Expected:
    return Expected(value["text"], instant(value["due"]), instant(value["at"]))


def _gather(value: dict[str, Any]) -> Gather:
    longest = value["max_wait"]
    return Gather(**value | {"wait": _span(value["wait"]), "max_wait": None if longest is None else _span(longest)})


_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(NewJob)}
_READ: dict[str, _Read] = {
    "run_at": instant,
    "planned_at": instant,
    "fire_at": instant,
    "timeout": _span,
    "after": tuple,
    "entry": _entry,
    "expect": _expected,
    "gather": _gather,
}
