"""States in words, and the shape and colour that each has on every page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from horae.api.jobs.room import Job, Reason
from horae.console import texts, times
from horae.console.texts import gettext, mark
from horae.core.time.instants import from_iso
from horae.errors import InvalidInput
from horae.words.sentences import why_line

_WITH_STATE = re.compile(r"(job_(?:[0-9]+x)?[0-9]+) \(([a-z]+)\)")  # as reasons name a job that is waited for
LATE = timedelta(minutes=1)  # how long a job may be due before that is worth a colour
WORDS = {
    "queued": mark("queued"),
    "running": mark("running"),
    "succeeded": mark("succeeded"),
    "dead": mark("dead"),
    "cancelled": mark("cancelled"),
    "late": mark("late"),
    "held": mark("held"),
    "failed": mark("failed"),
    "timed_out": mark("timed out"),
    "lost": mark("lost"),
    "released": mark("given back"),
    "snoozed": mark("snoozed"),
    "skipped": mark("skipped"),
    "active": mark("active"),
    "paused": mark("paused"),
    "disabled": mark("disabled"),
    "inactive": mark("inactive"),
    "follows": mark("follows others"),
    "local": mark("on every node"),
    "resting": mark("resting"),
    "ended": mark("ended"),
    "done": mark("done"),
    "ran": mark("ran"),
    "merged": mark("merged into a later one"),
    "manual": mark("by hand"),
    "backfill": mark("made up for"),
    "high": mark("high"),
    "medium": mark("medium"),
    "low": mark("low"),
}
# Outcomes and statuses that share the shape and colour of a state.
KINDS = {
    "timed_out": "failed",
    "released": "cancelled",
    "snoozed": "queued",
    "follows": "queued",
    "local": "active",
    "resting": "queued",
    "ended": "succeeded",
    "ran": "succeeded",
    "merged": "skipped",
}
# How an attempt that ended so is drawn on a band of time.
DRAWN = {"succeeded": "done", "failed": "failed", "timed_out": "failed", "lost": "lost", "running": "running"}


def word(state: str) -> str:
    """Return a state, an outcome or a status in words."""
    return gettext(WORDS[state]) if state in WORDS else state


def kind(state: str) -> str:
    """Return the state whose shape and colour it has."""
    return KINDS.get(state, state if state in WORDS else "queued")


def job_state(job: Job, now: datetime) -> str:
    """Return the state of a job as it is shown: a queued one may be held, or late."""
    if job.state != "queued":
        return job.state
    if job.held:
        return "held"
    return "late" if job.run_at < now - LATE else "queued"


def sentence(reason: Reason, clock: times.Clock) -> str:
    """Return a why line in the reader's language, its instants on the reader's clock, as a sentence of its own."""
    facts = localised(reason.facts, clock)
    said = why_line(reason.reason, facts, texts.language()) or reason.in_words(texts.language())
    end = "" if said.endswith((".", "。", "!", "?")) else "。" if texts.current() == "zh" else "."
    return f"{said[:1].upper()}{said[1:]}{end}"


def localised(facts: Mapping[str, Any], clock: times.Clock) -> dict[str, Any]:
    """Return facts with every instant in them as the reader's clock shows it."""
    return {name: _on_clock(value, clock) for name, value in facts.items()}


def _on_clock(value: Any, clock: times.Clock) -> Any:
    if isinstance(value, list | tuple):
        return [_on_clock(each, clock) for each in value]
    if isinstance(value, str) and (named := _WITH_STATE.fullmatch(value)):
        return f"{named[1]} ({word(named[2])})"
    if not isinstance(value, str) or not (20 <= len(value) <= 32 and value.endswith("Z")):
        return value
    try:
        at = from_iso(value)
    except (InvalidInput, ValueError):
        return value
    zone = clock.zone_for()
    return f"{times.clock_time(at, clock.now, zone, seconds=True)} {times.zone_label(at.astimezone(zone))}"
