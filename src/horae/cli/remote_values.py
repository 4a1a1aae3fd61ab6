"""Between the words of the service and the values that commands show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from horae.core.fires import Fire, FireKind, Schedule, Verdict
from horae.core.instants import from_iso
from horae.core.retry import Retry
from horae.ports import Tally

if TYPE_CHECKING:
    from horae.client import schedule_answers

STATES: dict[str, Any] = {"dead_letter": "dead"}  # the words of the service that are not ours
WORDS = {state: word for word, state in STATES.items()}
SPANS = ("initial_delay", "spread", "grace", "jitter", "timeout", "lock_ttl", "stale_timeout")
# What the service tells of a schedule under the name that it has here.
SAME = (
    "key", "handler", "kind", "expression", "zone", "owner", "group", "payload", "queue", "priority", "day_match",
    "gap", "fold", "lenient", "anchor", "misfire", "catch_up", "overlap", "mode", "after", "starts_at", "ends_at",
    "max_fires", "enabled", "declared", "inactive", "paused_at", "paused_by", "pause_reason", "next_fire_at",
    "next_due_at", "fire_count", "last_fire_at", "sources", "version", "created_at", "updated_at", "title", "toggled",
    "tzdata",
)  # fmt: skip
# What somebody may say about a new schedule; whatever is as by default is left to the service.
SAID = (*(name for name in SAME if name in (
    "group", "payload", "queue", "priority", "day_match", "gap", "fold", "lenient", "anchor", "misfire", "catch_up",
    "overlap", "mode", "starts_at", "ends_at", "max_fires", "enabled", "title",
)), *SPANS)  # fmt: skip


# -- schedules ---------------------------------------------------------------------------------------------------


def schedule(told: schedule_answers.Schedule) -> Schedule:
    retry = Retry.from_json(told.retry, told.retry.get("attempts", 1))
    same: dict[str, Any] = {name: getattr(told, name) for name in SAME}
    spans: dict[str, Any] = {name: _span(getattr(told, name)) for name in SPANS}
    return Schedule(retry=retry, **same, **spans)


def schedule_told(value: Schedule) -> dict[str, Any]:
    """What is special about a new schedule, as the client's ``create`` takes it."""
    usual = Schedule(value.key, value.handler, value.kind, value.expression)
    special = {name: getattr(value, name) for name in SAID if getattr(value, name) != getattr(usual, name)}
    if value.sources.get("zone"):
        special["zone"] = value.zone
    rule = {"kind": value.kind, "expression": value.expression, "after": value.after}
    return timing_told({"handler": value.handler, **special, **rule})


def timing_told(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a schedule as the client takes them: the rule under its own name."""
    told = {name: value for name, value in changes.items() if name not in ("kind", "expression", "after")}
    match changes.get("kind"):
        case "cron":
            told["cron"] = changes["expression"]
        case "every":
            told["every"] = float(changes["expression"])
        case "once":
            told["once"] = from_iso(changes["expression"])
        case "after":
            told["after"] = list(changes["after"])
    return told


def fire(told: schedule_answers.Fire) -> Fire:
    return Fire(
        told.fire_at,
        cast("Verdict", told.verdict),
        cast("FireKind", told.kind),
        told.reason,
        told.due_at,
        told.last_at,
        told.count,
        told.merged_into,
    )


def tally(told: schedule_answers.Tally | None) -> Tally:
    return Tally() if told is None else Tally(**{each.name: getattr(told, each.name) for each in fields(Tally)})


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
