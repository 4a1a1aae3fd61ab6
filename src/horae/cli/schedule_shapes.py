"""Schedules and fires as the JSON that ``--json`` prints; the promise of :mod:`horae.cli.shapes` holds here too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.cli.shapes import moment
from horae.errors import UnknownZone

if TYPE_CHECKING:
    from horae.core.audit import Entry
    from horae.core.fires import Fire, Schedule
    from horae.core.notes import Effect, Note
    from horae.core.words import Language
    from horae.ports import Tally

RULE = ("kind", "expression", "zone", "day_match", "gap", "fold", "lenient", "anchor", "initial_delay", "after")


def schedule(value: Schedule) -> dict[str, Any]:
    from horae.core.standing import described, standing

    fire = value.next_fire_at
    return {
        "key": value.key,
        "owner": value.owner,
        "handler": value.handler,
        "standing": standing(value),
        "words": described(value),
        **{name: _plain(getattr(value, name)) for name in RULE},
        "next_fire_at": moment(fire),
        "next_fire_local": None if fire is None else fire_at(fire, value.zone)["local"],
        "next_due_at": moment(value.next_due_at),
        "last_fire_at": moment(value.last_fire_at),
        "fire_count": value.fire_count,
        "max_fires": value.max_fires,
        "starts_at": moment(value.starts_at),
        "ends_at": moment(value.ends_at),
        "arguments": value.payload,
        "queue": value.queue,
        "priority": value.priority,
        "group": value.group,
        "misfire": value.misfire,
        "catch_up": value.catch_up,
        "spread": _plain(value.spread),
        "grace": _plain(value.grace),
        "overlap": value.overlap,
        "jitter": _plain(value.jitter),
        "retry": {**value.retry.as_json(), "attempts": value.retry.attempts},
        "timeout": _plain(value.timeout),
        "mode": value.mode,
        "lock_ttl": _plain(value.lock_ttl),
        "stale_timeout": _plain(value.stale_timeout),
        "enabled": value.enabled,
        "inactive": value.inactive,
        "paused_at": moment(value.paused_at),
        "paused_by": value.paused_by,
        "pause_reason": value.pause_reason,
        "declared": value.declared,
        "sources": dict(value.sources),
        "tzdata": value.tzdata,
        "version": value.version,
        "created_at": moment(value.created_at),
        "updated_at": moment(value.updated_at),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple) else value


def fire_at(value: datetime, zone: str) -> dict[str, str | None]:
    """An instant that will come, in UTC and as clocks of the zone show it."""
    from horae.core.readings import local

    try:
        shown = local(value, zone).isoformat()
    except UnknownZone:
        shown = None
    return {"at": moment(value), "local": shown}


def fire(value: Fire, job_id: str | None) -> dict[str, Any]:
    return {
        "fire_at": moment(value.fire_at),
        "kind": value.kind,
        "verdict": value.verdict,
        "reason": value.reason,
        "due_at": moment(value.due_at),
        "last_at": moment(value.last_at),
        "count": value.count,
        "merged_into": moment(value.into),
        "job_id": job_id,
    }


def tally(value: Tally) -> dict[str, Any]:
    return {
        "run_count": value.run_count,
        "fail_count": value.fail_count,
        "last_outcome": value.last_outcome,
        "last_started_at": moment(value.last_started_at),
        "last_finished_at": moment(value.last_finished_at),
        "last_error": value.last_error,
    }


def entry(value: Entry) -> dict[str, Any]:
    return {"at": moment(value.at), "actor": value.actor, "verb": value.verb, "reason": value.reason}


def effect(value: Effect, language: Language) -> dict[str, Any]:
    from horae.core.notes_words import say_change, say_effect

    change, listed = value.change, value.readings[:100]
    return {
        "at": moment(change.at),
        "kind": change.kind,
        "offset_before": change.before.total_seconds(),
        "offset_after": change.after.total_seconds(),
        "outcome": value.outcome,
        "readings": [reading.replace(tzinfo=None).isoformat() for reading in listed],
        "reading_count": len(value.readings),
        "fires": [moment(each) for each in value.fires[:100]],
        "change": say_change(change, language),
        "effect": say_effect(value, language),
    }


def notes(values: Sequence[Note], language: Language) -> list[dict[str, str]]:
    from horae.core.notes_words import say

    return [{"code": each.code, "text": say(each, language)} for each in values]
