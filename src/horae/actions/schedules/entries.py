"""Audit entries of schedules: the whole schedule before and after each change."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from horae.core.audit.entries import Entry
from horae.core.jobs.agent_words import AGENT_WORDS
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.masking import MASK, mask
from horae.core.jobs.retry import Retry
from horae.core.schedules.schedule import Schedule
from horae.core.time.instants import iso

LONGEST_ID = 255  # of what the audit can name
# What a change may touch; everything else follows from it or is set by the system.
CHANGEABLE = tuple(
    field.name
    for field in fields(Schedule)
    if field.name
    not in {"key", "number", "owner", "next_fire_at", "next_due_at", "tzdata", "fire_count", "last_fire_at", "sources",
            "version", "created_at", "updated_at", "paused_at", "paused_by", "pause_reason", "paused_until",
            "declared", "inactive",
            "toggled", "calendar_days", "expected_since", "succeeded_at", "missed_at", "check_job"}
)  # fmt: skip


def schedule_dict(schedule: Schedule, hidden: Collection[str] = ()) -> dict[str, Any]:
    """Return a schedule as plain JSON values, with sensitive arguments and those of *hidden* names masked."""
    values = {
        field: getattr(schedule, field) for field in (*CHANGEABLE, "version", "next_fire_at", "paused_at", "toggled")
    }
    if schedule.handler in AGENT_WORDS:
        hidden = {*hidden, *AGENT_WORDS[schedule.handler]}
        values["title"] = schedule.title and MASK
    values["payload"] = mask(schedule.payload, hidden)
    plain: dict[str, Any] = {}
    for field, value in values.items():
        if isinstance(value, datetime):
            plain[field] = iso(value)
        elif isinstance(value, timedelta):
            plain[field] = value.total_seconds()
        elif isinstance(value, Retry):
            plain[field] = {**value.as_json(), "attempts": value.attempts}
        else:
            plain[field] = list(value) if isinstance(value, tuple) else value
    return plain


def object_id(key: str, owner: str) -> str:
    """Return the name of a schedule in the audit. It is unique only together with the owner: both may have slashes."""
    name = key if owner == SYSTEM else f"{owner}/{key}"
    return name if len(name) <= LONGEST_ID else f"{name[:190]}~{hashlib.sha256(name.encode()).hexdigest()}"


def entry_for(
    now: datetime,
    verb: str,
    schedule: Schedule,
    actor: str,
    reason: str,
    *,
    before: Mapping[str, Any],
    hidden: Collection[str] = (),
    **more: Any,
) -> Entry:
    return Entry(
        at=now,
        actor=actor,
        verb=verb,
        object_type="schedule",
        object_id=object_id(schedule.key, schedule.owner),
        owner=schedule.owner,
        reason=reason or None,
        before=before,
        after={**schedule_dict(schedule, hidden), **more},
    )
