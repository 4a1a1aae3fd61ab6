"""Schedules and their fires as people read them in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.cli import words
from horae.cli.schedules.explain import clock
from horae.words.languages import Language

if TYPE_CHECKING:
    from horae.api.schedules.timetable import Timetable
    from horae.api.schedules.values import Fire, RunSummary, Schedule, ScheduleDetail, Version
    from horae.cli.terminal import Terminal

# What a person may want to know of a schedule, with where the value comes from; the rest stands in sentences.
POLICIES = (
    "queue", "priority", "group", "misfire", "catch_up", "spread", "grace", "overlap", "jitter", "retry", "timeout",
    "mode", "lock_ttl", "stale_timeout", "budget", "cost",
)  # fmt: skip
TIMING = (
    "enabled",
    "zone",
    "day_match",
    "gap",
    "fold",
    "lenient",
    "anchor",
    "initial_delay",
    "starts_at",
    "ends_at",
    "max_fires",
    "quiet_hours",
    "calendar",
    "calendar_rule",
    "expect",
)
ONLY_FOR = {
    "day_match": "cron", "gap": "cron", "fold": "cron", "lenient": "cron", "anchor": "every", "initial_delay": "every",
}  # fmt: skip


RESULTS = {"succeeded": "+", "skipped": ".", "snoozed": ".", "released": "."}  # every other outcome: !


def schedule_table(
    terminal: Terminal, schedules: Sequence[Schedule], now: datetime, *, results: bool = False
) -> str:  # fmt: skip
    headers: tuple[str, ...] = ("KEY", "STANDING", "HANDLER", "GROUP", "NEXT", "UTC", "LOCAL", "WORDS")
    rows: list[tuple[str, ...]] = [_row(each, now) for each in schedules]
    if results:
        headers = (*headers, "RESULTS")
        rows = [(*row, _results(each)) for row, each in zip(rows, schedules, strict=True)]
    return terminal.table(headers, rows)


def timetable_page(terminal: Terminal, found: Timetable) -> str:
    """Return the hours in which something fires, the minutes with many fires, and the schedules of the hour."""
    if not found.hours:
        return "Nothing fires."
    rows = [(clock(each.at, found.zone), str(each.fires), str(each.ran), str(each.missed)) for each in found.hours]
    lines = [terminal.table(("HOUR", "TO FIRE", "RAN", "NOT RUN"), rows)]
    lines += [
        f"{words.count(each.fires, 'schedule')} at {clock(each.minute, found.zone)}" for each in found.pile_ups[:5]
    ]
    entries = [(each.key, each.owner, str(each.fires), str(each.ran), str(each.missed)) for each in found.entries]
    if entries:
        lines.append(terminal.table(("KEY", "OWNER", "TO FIRE", "RAN", "NOT RUN"), entries))
    return "\n".join(lines)


def _results(schedule: Schedule) -> str:
    return "".join(RESULTS.get(each.outcome, "!") for each in reversed(schedule.results)) or "-"


def _row(schedule: Schedule, now: datetime) -> tuple[str, ...]:
    fire = schedule.next_fire_at
    when = ("-", "-", "-") if fire is None else (words.relative(fire, now), words.exact(fire), _local(schedule, fire))
    return (
        schedule.key,
        schedule.status,
        schedule.handler,
        schedule.group or "-",
        *when,
        schedule.words,
    )


def _local(schedule: Schedule, moment: datetime) -> str:
    return "-" if schedule.zone == "UTC" else clock(moment, schedule.zone)


def schedule_page(
    terminal: Terminal, schedule: ScheduleDetail, fires: Sequence[Fire], changes: Sequence[Version], now: datetime
) -> str:
    lines = [f"{terminal.bold(schedule.key)}  {schedule.handler}  {schedule.status}"]
    lines += [
        f"  {name:<15}{value}" for name, value in _facts(schedule, now, terminal.language) if value not in ("", None)
    ]
    lines += ["", terminal.faint("policies, and where each value comes from")]
    lines += [f"  {name:<15}{value}" for name, value in _sourced(schedule)]
    if fires:
        lines += ["", fire_table(terminal, schedule, fires)]
    if changes:
        lines += ["", terminal.faint("changes")]
        lines += [f"  {_change(entry, now, terminal.language)}" for entry in changes]
    return "\n".join(lines)


def _facts(schedule: ScheduleDetail, now: datetime, language: Language) -> list[tuple[str, Any]]:
    tally = schedule.runs
    missing = [("missing", each.in_words(language)) for each in schedule.why if each.code == "missed"]
    silent = [each.in_words(language) for each in schedule.why if each.code != "missed"]
    because = missing + [("silent because" if index == 0 else "", text) for index, text in enumerate(silent)]
    fire, due = schedule.next_fire_at, schedule.next_due_at
    runs = f"{words.count(tally.run_count, 'run')}, {tally.fail_count:,} failed"
    return [
        *because,
        ("words", schedule.words),
        (
            "rule",
            f"{schedule.kind} {schedule.expression or ', '.join(schedule.after)}  ({_source(schedule, 'expression')})",
        ),
        ("next fire", words.both(fire, now)),
        ("", "" if fire is None or schedule.zone == "UTC" else clock(fire, schedule.zone)),
        ("with jitter", words.both(due, now) if due != fire else ""),
        ("last fire", words.both(schedule.last_fire_at, now)),
        ("fired", f"{words.count(schedule.fire_count, 'time')}"),
        ("results", runs if tally.run_count else ""),
        ("last result", _last(tally, now)),
        ("last error", words.first_line(tally.last_error, 100)),
        ("payload", f"{json.dumps(schedule.payload, ensure_ascii=False)}  ({_source(schedule, 'payload')})"),
        ("owner", schedule.owner),
        ("version", str(schedule.version)),
        ("created", words.both(schedule.created_at, now)),
        ("zone database", schedule.tzdata),
    ]


def _last(tally: RunSummary, now: datetime) -> str:
    if tally.last_outcome is None or tally.last_finished_at is None:
        return ""
    took = (
        "" if tally.last_started_at is None else f", took {words.span(tally.last_finished_at - tally.last_started_at)}"
    )
    return f"{tally.last_outcome} {words.both(tally.last_finished_at, now)}{took}"


def _sourced(schedule: Schedule) -> list[tuple[str, str]]:
    """Return each value with its source, where the value means anything for this schedule."""
    rows = []
    for name in (*TIMING, *POLICIES):
        value, source = getattr(schedule, name), _source(schedule, name)
        if value is None or ONLY_FOR.get(name, schedule.kind) != schedule.kind:
            continue
        if name in ("catch_up", "spread") and schedule.misfire != "catch_up":
            continue
        rows.append((name.replace("_", " "), f"{_plain(value):<24}{source}"))
    return rows


def _source(schedule: Schedule, name: str) -> str:
    return schedule.sources.get(name, "default")


def _plain(value: Any) -> str:
    from horae.core.jobs.retry import Retry

    if isinstance(value, datetime):
        return words.exact(value)
    if isinstance(value, timedelta):
        return words.span(value) if value else "none"
    if isinstance(value, Retry):
        return words.count(value.attempts, "attempt")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _change(entry: Version, now: datetime, language: Language) -> str:
    from horae.words.sentences import verb_phrase

    because = f": {entry.reason}" if entry.reason else ""
    done = verb_phrase(entry.verb, language)
    who = f"由 {entry.actor} {done}" if language == "zh" else f"{done} by {entry.actor}"
    return f"{who} {words.both(entry.at, now)}{because}"


def fire_table(terminal: Terminal, schedule: Schedule, fires: Sequence[Fire]) -> str:
    headers = ("FIRE", "LOCAL", "KIND", "VERDICT", "REASON", "COUNT", "JOB")
    return terminal.table(headers, [_fire_row(schedule, fire) for fire in fires])


def _fire_row(schedule: Schedule, fire: Fire) -> tuple[str, ...]:
    reason = fire.reason or "-"
    if fire.merged_into is not None:
        reason = f"{reason}, into {words.exact(fire.merged_into)}"
    return (
        words.exact(fire.fire_at),
        _local(schedule, fire.fire_at),
        fire.kind,
        fire.verdict,
        reason,
        str(fire.count),
        fire.job_id or "-",
    )
