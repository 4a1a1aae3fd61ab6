"""Read the tables of django-celery-beat; neither Django nor Celery is needed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from horae.cli.imports.celery import BASIC, FIELDS, KEPT, crontab_rule, dropped, zone_name
from horae.cli.imports.entries import Entry, NotBrought, instant, interval_timing, key_from
from horae.cli.terminal import refuse_missing_file
from horae.core.schedules.notes import Note
from horae.errors import InvalidInput
from horae.stores.foreign import Row, read_tables

TASKS = "django_celery_beat_periodictask"
CRONTABS = "django_celery_beat_crontabschedule"
INTERVALS = "django_celery_beat_intervalschedule"
CLOCKED = "django_celery_beat_clockedschedule"
OWN = "celery.backend_cleanup"  # beat adds it by itself; Horae keeps its own history small
OPTIONS = ("exchange", "routing_key", "priority", "expire_seconds")


def read_django_celery_beat(url: str, zone: str | None) -> list[Entry]:
    """Return the periodic tasks of a database, by name; *zone* is for crontabs that have none."""
    refuse_missing_file(url)
    rows = read_tables(url, (TASKS, CRONTABS, INTERVALS, CLOCKED))
    by_id = {name: {row["id"]: row for row in found} for name, found in rows.items()}
    tasks = sorted(rows[TASKS], key=lambda row: str(row["name"]))
    return [_entry(row, by_id, zone) for row in tasks if row["task"] != OWN]


def _entry(row: Row, by_id: dict[str, dict[Any, Row]], zone: str | None) -> Entry:
    origin, key = f"periodic task {row['id']}", key_from(str(row["name"]))
    try:
        rule, notes = _rule(row, by_id, zone)
        payload = _payload(row)
    except NotBrought as problem:
        return Entry(origin, key, refusal=problem.note)
    except InvalidInput as problem:
        return Entry(origin, key, refusal=Note("refused", {"problem": problem}))
    timing = {**rule, **BASIC, **_bounds(row), "handler": str(row["task"]), "payload": payload}
    timing |= {"queue": str(row["queue"])} if row.get("queue") else {}
    notes = [*notes, *KEPT, *dropped({each: row.get(each) or None for each in OPTIONS})]
    notes += [Note("one_off")] if timing["max_fires"] else []
    notes += [] if row["enabled"] else [Note("off_there")]
    return Entry(origin, key, timing, tuple(notes), enabled=bool(row["enabled"]))


def _rule(row: Row, by_id: dict[str, dict[Any, Row]], zone: str | None) -> tuple[dict[str, Any], list[Note]]:
    if row.get("crontab_id") is not None:
        found = by_id[CRONTABS][row["crontab_id"]]
        return crontab_rule([found[each] for each in FIELDS], zone_name(found.get("timezone")) or zone)
    if row.get("interval_id") is not None:
        found = by_id[INTERVALS][row["interval_id"]]
        return interval_timing(timedelta(**{str(found["period"]): found["every"]})), [Note("first_fire")]
    if row.get("clocked_id") is not None:
        return {"once": instant(by_id[CLOCKED][row["clocked_id"]]["clocked_time"])}, []
    if row.get("solar_id") is not None:
        raise NotBrought("solar")
    raise NotBrought("schedule_unknown", type="none")


def _bounds(row: Row) -> dict[str, Any]:
    """Return from when until when it fires, and how often; each also where it is not bounded."""
    once = row.get("one_off") and row.get("clocked_id") is None
    return {
        "starts_at": instant(row.get("start_time")),
        "ends_at": instant(row.get("expires")),
        "max_fires": 1 if once else None,
    }


def _payload(row: Row) -> dict[str, Any]:
    try:
        args, kwargs = json.loads(row["args"] or "[]"), json.loads(row["kwargs"] or "{}")
    except ValueError as problem:
        raise NotBrought("arguments_not_json", problem=str(problem)) from problem
    if args:
        raise NotBrought("arguments_positional")
    return dict(kwargs)
