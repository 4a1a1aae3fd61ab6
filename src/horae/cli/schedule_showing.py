"""Schedules and their fires as people read them in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from horae.cli import words
from horae.cli.explaining import clock

if TYPE_CHECKING:
    from horae.cli.terminal import Terminal
    from horae.core.audit import Entry
    from horae.core.fires import Fire, Schedule
    from horae.core.reasons import Reason
    from horae.ports import Tally

# What a person may want to know of a schedule, with where the value comes from; the rest is told in sentences.
POLICIES = (
    "queue", "priority", "group", "misfire", "catch_up", "spread", "grace", "overlap", "jitter", "retry", "timeout",
    "mode", "lock_ttl", "stale_timeout",
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
)
ONLY_FOR = {
    "day_match": "cron", "gap": "cron", "fold": "cron", "lenient": "cron", "anchor": "every", "initial_delay": "every",
}  # fmt: skip


@dataclass(frozen=True)
class Page:
    """All there is to tell about one schedule."""

    schedule: Schedule
    why: Sequence[Reason]
    tally: Tally
    fires: Sequence[tuple[Fire, str | None]]
    changes: Sequence[Entry]
    now: datetime


def schedule_table(terminal: Terminal, schedules: Sequence[Schedule], now: datetime) -> str:
    headers = ("KEY", "STANDING", "HANDLER", "GROUP", "NEXT", "UTC", "LOCAL", "WORDS")
    return terminal.table(headers, [_row(schedule, now) for schedule in schedules])


def _row(schedule: Schedule, now: datetime) -> tuple[str, ...]:
    from horae.core.standing import described, standing

    fire = schedule.next_fire_at
    when = ("-", "-", "-") if fire is None else (words.relative(fire, now), words.exact(fire), _local(schedule, fire))
    return (
        schedule.key,
        standing(schedule),
        schedule.handler,
        schedule.group or "-",
        *when,
        described(schedule),
    )


def _local(schedule: Schedule, moment: datetime) -> str:
    return "-" if schedule.zone == "UTC" else clock(moment, schedule.zone)


def schedule_page(terminal: Terminal, page: Page) -> str:
    from horae.core.standing import standing

    schedule = page.schedule
    lines = [f"{terminal.bold(schedule.key)}  {schedule.handler}  {standing(schedule)}"]
    lines += [f"  {name:<15}{value}" for name, value in _facts(page) if value not in ("", None)]
    lines += ["", terminal.faint("policies, and where each value comes from")]
    lines += [f"  {name:<15}{value}" for name, value in _sourced(schedule)]
    if page.fires:
        lines += ["", fire_table(terminal, schedule, page.fires)]
    if page.changes:
        lines += ["", terminal.faint("changes")]
        lines += [f"  {_change(entry, page.now)}" for entry in page.changes]
    return "\n".join(lines)


def _facts(page: Page) -> list[tuple[str, Any]]:
    from horae.core.standing import described

    schedule, tally, now = page.schedule, page.tally, page.now
    because = [("silent because" if place == 0 else "", reason.text) for place, reason in enumerate(page.why)]
    fire, due = schedule.next_fire_at, schedule.next_due_at
    runs = f"{words.count(tally.run_count, 'run')}, {tally.fail_count:,} failed"
    return [
        *because,
        ("words", described(schedule)),
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
        ("arguments", f"{json.dumps(schedule.payload, ensure_ascii=False)}  ({_source(schedule, 'payload')})"),
        ("owner", schedule.owner),
        ("version", str(schedule.version)),
        ("created", words.both(schedule.created_at, now)),
        ("zone database", schedule.tzdata),
    ]


def _last(tally: Tally, now: datetime) -> str:
    if tally.last_outcome is None or tally.last_finished_at is None:
        return ""
    took = (
        "" if tally.last_started_at is None else f", took {words.span(tally.last_finished_at - tally.last_started_at)}"
    )
    return f"{tally.last_outcome} {words.both(tally.last_finished_at, now)}{took}"


def _sourced(schedule: Schedule) -> list[tuple[str, str]]:
    """Each value with its source, where the value says anything."""
    told = []
    for name in (*TIMING, *POLICIES):
        value, source = getattr(schedule, name), _source(schedule, name)
        if value is None or ONLY_FOR.get(name, schedule.kind) != schedule.kind:
            continue
        if name in ("catch_up", "spread") and schedule.misfire != "catch_up":
            continue
        told.append((name.replace("_", " "), f"{_plain(value):<24}{source}"))
    return told


def _source(schedule: Schedule, name: str) -> str:
    return schedule.sources.get(name, "default")


def _plain(value: Any) -> str:
    from horae.core.retry import Retry

    if isinstance(value, datetime):
        return words.exact(value)
    if isinstance(value, timedelta):
        return words.span(value) if value else "none"
    if isinstance(value, Retry):
        return words.count(value.attempts, "attempt")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _change(entry: Entry, now: datetime) -> str:
    because = f": {entry.reason}" if entry.reason else ""
    return f"{entry.verb} by {entry.actor} {words.both(entry.at, now)}{because}"


def fire_table(terminal: Terminal, schedule: Schedule, fires: Sequence[tuple[Fire, str | None]]) -> str:
    headers = ("FIRE", "LOCAL", "KIND", "VERDICT", "REASON", "COUNT", "JOB")
    return terminal.table(headers, [_fire_row(schedule, fire, job_id) for fire, job_id in fires])


def _fire_row(schedule: Schedule, fire: Fire, job_id: str | None) -> tuple[str, ...]:
    reason = fire.reason or "-"
    if fire.into is not None:
        reason = f"{reason}, into {words.exact(fire.into)}"
    return (
        words.exact(fire.fire_at),
        _local(schedule, fire.fire_at),
        fire.kind,
        fire.verdict,
        reason,
        str(fire.count),
        job_id or "-",
    )
