"""Read Celery's ``beat_schedule``, without Celery: its schedules are recognised by their attributes.

Celery's meaning is kept: day and weekday must both match, one missed run is made up for, runs may overlap.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from horae.cli.imports.entries import Entry, NotBrought, cron_timing, interval_timing, key_from
from horae.core.schedules.notes import Note
from horae.errors import InvalidInput

FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")  # in the order of cron
KNOWN_OPTIONS = ("queue",)
KEPT = (Note("missed_once"), Note("overlap_allow"))
BASIC = {"misfire": "fire_once", "overlap": "allow"}


def read_beat(source: Any, zone: str | None) -> list[Entry]:
    """Return the entries of a Celery application, or of a dictionary as ``beat_schedule`` is one."""
    conf = getattr(source, "conf", None)
    entries = source if isinstance(source, Mapping) else getattr(conf, "beat_schedule", None)
    if not isinstance(entries, Mapping):
        raise InvalidInput("import_no_beat_schedule", type=type(source).__name__)
    named = zone or zone_name(getattr(conf, "timezone", None))
    tasks = getattr(source, "tasks", {})
    return [_entry(str(name), each, named, tasks) for name, each in entries.items()]


def zone_name(zone: object) -> str | None:
    """Return the name of a zone that is text, a ZoneInfo or one of pytz; None where there is none."""
    found = getattr(zone, "key", None) or getattr(zone, "zone", None) or zone
    return str(found) if found else None


def _entry(name: str, given: Any, zone: str | None, tasks: Any) -> Entry:
    origin, key = f"beat_schedule {name}", key_from(name)
    try:
        if not isinstance(given, Mapping) or not given.get("task"):
            raise NotBrought("task_missing")
        rule, notes = rule_of(given.get("schedule"), zone)
        payload, named = _payload(given, tasks)
        options = dict(given.get("options") or {})
    except NotBrought as problem:
        return Entry(origin, key, refusal=problem.note)
    except InvalidInput as problem:
        return Entry(origin, key, refusal=Note("refused", {"problem": problem}))
    timing = {**rule, **BASIC, "handler": str(given["task"]), "payload": payload}
    timing |= {"queue": str(options["queue"])} if options.get("queue") else {}
    return Entry(origin, key, timing, (*notes, *KEPT, *named, *dropped(options)))


def dropped(options: Mapping[str, Any]) -> list[Note]:
    """Name the options of a message that have no counterpart in a schedule."""
    names = sorted(each for each, value in options.items() if each not in KNOWN_OPTIONS and value is not None)
    return [Note("options_dropped", {"names": ", ".join(names)})] if names else []


def rule_of(schedule: Any, zone: str | None) -> tuple[dict[str, Any], list[Note]]:
    """Return the rule of a schedule: seconds, a timedelta, a crontab, an interval, or JSON for one of these."""
    if isinstance(schedule, bool) or schedule is None:
        raise NotBrought("schedule_unknown", type=type(schedule).__name__)
    if isinstance(schedule, int | float):
        return _interval(timedelta(seconds=schedule))
    if isinstance(schedule, timedelta):
        return _interval(schedule)
    if isinstance(schedule, Mapping) and set(schedule) <= set(FIELDS) and schedule:
        return crontab_rule([schedule.get(each, "*") for each in FIELDS], zone)
    if all(hasattr(schedule, f"_orig_{each}") for each in FIELDS):
        return crontab_rule([getattr(schedule, f"_orig_{each}") for each in FIELDS], zone)
    if hasattr(schedule, "event") and hasattr(schedule, "lat"):
        raise NotBrought("solar")
    if isinstance(getattr(schedule, "clocked_time", None), datetime):
        return {"once": schedule.clocked_time}, []
    if isinstance(getattr(schedule, "run_every", None), timedelta):
        rule, notes = _interval(schedule.run_every)
        return rule, [*notes, Note("relative")] if getattr(schedule, "relative", False) else notes
    raise NotBrought("schedule_unknown", type=type(schedule).__name__)


def crontab_rule(values: Iterable[Any], zone: str | None) -> tuple[dict[str, Any], list[Note]]:
    """Return the rule of Celery's crontab fields: minute, hour, day, month, weekday."""
    fields = [_field(each) for each in values]
    rule, notes = cron_timing(" ".join(fields), zone or "UTC")
    notes += [Note("zone_default")] if zone is None else []
    notes += [Note("day_and")] if "*" not in (fields[2], fields[4]) else []
    return rule, [*notes, Note("clocks")]


def _interval(period: timedelta) -> tuple[dict[str, Any], list[Note]]:
    return interval_timing(period), [Note("first_fire")]


def _field(value: Any) -> str:
    """Return a field as cron writes it; Celery also takes numbers, collections, spaces and whole names."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(each) for each in sorted(value, key=str))
    return re.sub(r"[A-Za-z]{3,}", lambda found: found[0][:3], re.sub(r"\s", "", str(value)))


def _payload(given: Mapping[str, Any], tasks: Any) -> tuple[dict[str, Any], list[Note]]:
    """Return the arguments by name; positional ones get the names of the task's parameters, where it is known."""
    args, kwargs = list(given.get("args") or ()), dict(given.get("kwargs") or {})
    if not args:
        return kwargs, []
    task = tasks.get(given["task"]) if hasattr(tasks, "get") else None
    if task is None:
        raise NotBrought("arguments_positional")
    try:
        bound = inspect.signature(getattr(task, "run", task)).bind(*args, **kwargs)
    except (TypeError, ValueError) as problem:
        raise NotBrought("arguments_not_fitting", problem=str(problem)) from problem
    kinds = {each.kind for each in bound.signature.parameters.values() if each.name in bound.arguments}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
        raise NotBrought("arguments_positional")
    named = {**dict(zip(bound.signature.parameters, args, strict=False)), **kwargs}
    return named, [Note("named_arguments", {"names": ", ".join(list(named)[: len(args)])})]
