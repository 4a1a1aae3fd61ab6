"""Read the table of APScheduler 3's SQLAlchemyJobStore; its pickles are read as data, and run nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from horae.cli.imports.entries import Entry, NotBrought, cron_timing, key_from
from horae.cli.imports.pickled import Made, Named, as_json_value, read_pickled
from horae.cli.terminal import refuse_missing_file
from horae.core.schedules.notes import Note
from horae.core.time.zones import zone_named
from horae.errors import InvalidInput
from horae.stores.foreign import read_tables

TABLE = "apscheduler_jobs"
FIELDS = ("second", "minute", "hour", "day", "month", "day_of_week")
LAST_WEEKDAY = 5  # as option_num: 0 to 4 are the first to the fifth


def read_apscheduler(url: str, table: str = TABLE) -> list[Entry]:
    """Return the jobs of a job store, by id."""
    refuse_missing_file(url)
    rows = read_tables(url, (table,))[table]
    return [_entry(str(row["id"]), row["job_state"]) for row in sorted(rows, key=lambda row: str(row["id"]))]


def _entry(name: str, state: Any) -> Entry:
    origin, key = f"job {name}", key_from(name)
    try:
        job = read_pickled(bytes(state))
        if not isinstance(job, dict) or not isinstance(job.get("trigger"), Made) or not job.get("func"):
            raise NotBrought("state_unreadable", problem="no job of APScheduler 3")
        if job.get("args"):
            raise NotBrought("arguments_positional")
        rule, notes = _rule(job["trigger"])
        payload = as_json_value(job.get("kwargs") or {})
    except NotBrought as problem:
        return Entry(origin, key, refusal=problem.note)
    except InvalidInput as problem:
        return Entry(origin, key, refusal=Note("refused", {"problem": problem}))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as problem:
        return Entry(origin, key, refusal=Note("state_unreadable", {"problem": type(problem).__name__}))
    behaviour, kept = _behaviour(job)
    is_on = job.get("next_run_time") is not None
    timing = {**rule, **behaviour, "handler": str(job["func"]).replace(":", "."), "payload": payload}
    off = [] if is_on else [Note("off_there")]
    return Entry(
        origin, key, timing, (*notes, *kept, Note("handler", {"name": timing["handler"]}), *off), enabled=is_on
    )


def _behaviour(job: Mapping[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    grace = job.get("misfire_grace_time")
    missed = {"misfire": "fire_once"} if grace is None else {"misfire": "skip", "grace": timedelta(seconds=grace)}
    said = Note("missed_always") if grace is None else Note("missed_grace", {"seconds": grace})
    alone = job.get("max_instances", 1) == 1
    overlap = Note("overlap_skip") if alone else Note("overlap_some", {"most": job["max_instances"]})
    merged = [] if job.get("coalesce", True) else [Note("missed_merged")]
    return {**missed, "overlap": "skip" if alone else "allow"}, [said, *merged, overlap]


def _rule(trigger: Made) -> tuple[dict[str, Any], list[Note]]:
    state = trigger.state
    if trigger.type_name == "DateTrigger":
        return {"once": _instant(state["run_date"])}, []
    bounds: dict[str, Any] = {
        "ends_at": _instant(state.get("end_date")),
        "jitter": timedelta(seconds=state.get("jitter") or 0),
    }
    bounds["starts_at"] = _instant(state.get("start_date"))
    if trigger.type_name == "IntervalTrigger":  # it counts from its start there, and so it does here
        return {"every": timedelta(*state["interval"].arguments), **bounds}, []
    if trigger.type_name == "CronTrigger":
        rule, notes = _cron(state)
        return {**rule, **bounds}, notes
    raise NotBrought("schedule_unknown", type=trigger.type_name or "unknown")


def _cron(state: Mapping[str, Any]) -> tuple[dict[str, Any], list[Note]]:
    found = {each.state["name"]: each.state["expressions"] for each in state["fields"]}
    for name in ("year", "week"):
        if any(each.type_name != "AllExpression" or each.state["step"] for each in found[name]):
            raise NotBrought("field_unknown", name=name)
    columns = {name: ",".join(_item(name, each) for each in found[name]) for name in FIELDS}
    if "#" in columns["day"] or (columns["day"].endswith("L") and columns["day"] != "L"):
        if columns["day_of_week"] != "*" or "," in columns["day"]:
            raise NotBrought("field_unknown", name="day")
        columns |= {"day": "*", "day_of_week": columns["day"]}
    if columns["second"] == "0":
        del columns["second"]
    rule, notes = cron_timing(" ".join(columns.values()), _zone(state["timezone"]))
    both = [Note("day_and")] if "*" not in (columns["day"], columns["day_of_week"]) else []
    return rule, [*notes, *both, Note("clocks")]


def _item(field: str, expression: Made) -> str:
    """Return one expression as cron writes it; weekdays count from Monday there, from Sunday here."""
    kind, state = expression.type_name, expression.state
    if kind == "LastDayOfMonthExpression":
        return "L"
    if kind == "WeekdayPositionExpression":
        weekday, number = (state["weekday"] + 1) % 7, state["option_num"]
        return f"{weekday}L" if number == LAST_WEEKDAY else f"{weekday}#{number + 1}"
    step = state["step"]
    if kind == "AllExpression" and not step:
        return "*"
    if field == "day_of_week":
        last = state.get("last", 6)
        days = range(state.get("first", 0), (state["first"] if last is None else last) + 1, step or 1)
        return ",".join(str((day + 1) % 7) for day in days)
    if kind == "AllExpression":
        return f"*/{step}"
    if kind not in ("RangeExpression", "MonthRangeExpression"):
        raise NotBrought("schedule_unknown", type=kind)
    first, last = state["first"], state["last"]
    if last == first:
        return str(first)
    return f"{first}{'' if last is None else f'-{last}'}{f'/{step}' if step else ''}"


def _zone(made: Any) -> str:
    """Return the name of a zone of zoneinfo, pytz or datetime."""
    if isinstance(made, Made):
        inner = made.kind
        if isinstance(inner, Made) and inner.arguments == (Named("zoneinfo", "ZoneInfo"), "_unpickle"):
            return str(made.arguments[0])
        if inner == Named("pytz", "_p"):
            return str(made.arguments[0])
        is_utc = inner == Named("datetime", "timezone") and not any(made.arguments[0].arguments)
        if is_utc or inner == Named("pytz", "_UTC"):
            return "UTC"
    raise NotBrought("zone_unknown")


def _instant(made: Any) -> datetime | None:
    """Return a pickled datetime: ten bytes and a zone."""
    if made is None:
        return None
    data, zone = made.arguments
    day = (data[0] * 256 + data[1], data[2] & 0x7F, data[3])
    time = (data[4], data[5], data[6], int.from_bytes(data[7:10], "big"))
    return datetime(*day, *time, zone_named(_zone(zone)), fold=data[2] >> 7).astimezone(UTC)
