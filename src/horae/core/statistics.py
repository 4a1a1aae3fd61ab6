"""Statistics: endings counted by minute, hour and day, and by total, queue, handler and owner.

There are four separate marginals and no cross product of them, so that their number stays bounded. Times are whole
microseconds since 1970, as stored: a span begins at a multiple of its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.histograms import Histogram, percentile
from horae.core.jobs.machinery import MACHINERY
from horae.core.metrics import OTHER

Grain = Literal["minute", "hour", "day"]
Scope = Literal["total", "queue", "handler", "owner"]

SCOPES: tuple[Scope, ...] = ("total", "queue", "handler", "owner")
MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
LENGTHS: dict[Grain, int] = {"minute": MINUTE, "hour": HOUR, "day": DAY}
KEPT: dict[Grain, timedelta] = {
    "minute": timedelta(days=2),
    "hour": timedelta(days=35),
    "day": timedelta(days=400),
}
FINER: dict[Grain, Grain] = {"hour": "minute", "day": "hour"}
PAST = "past"  # the grain of what was counted on days that are no longer kept
DEPTH = "depth"  # the scope of sampled depths, by queue
MOST_NAMES = 1000  # of one marginal in one span; the rest is counted as "other"
MOST_DEPTH = 10_000  # a queue is not counted further than this
CLOSES_AFTER = timedelta(seconds=60)  # a minute is counted when it has been over for so long
# After so many minutes a minute is checked for late endings once more, each time half as old again.
CHECKED_AT = tuple(round(10 * 1.5**step) for step in range(28))
COUNTED = ("failed", "timed_out", "lost")  # failures that are followed by a retry or by death
OUTCOMES = ("succeeded", "failed", "lost")  # of an attempt
ENDS = (*OUTCOMES, "cancelled", "retried", "dead")  # and what became of its job


@dataclass(frozen=True, slots=True)
class Endings:
    """Attempts that ended alike in one span, as the store groups them."""

    at: int
    queue: str
    handler: str
    owner: str
    outcome: str
    state: str | None  # of the job, where this attempt ended it
    failed_before: bool  # the job ended, and an earlier attempt at it had failed
    count: int
    duration_sum: int
    delay_sum: int
    durations: Histogram
    delays: Histogram


@dataclass(frozen=True, slots=True)
class Deaths:
    """Jobs that died in one span."""

    at: int
    queue: str
    handler: str
    owner: str
    count: int


@dataclass(slots=True)
class Statistic:
    """The figures of one span and one name. They merge by addition."""

    seen: int = 0  # rows that were counted: with the total also those of Horae's own jobs, to tell what came late
    runs: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    lost: int = 0
    recovered: int = 0  # jobs that ended after at least one failure
    duration_sum: int = 0  # microseconds
    delay_sum: int = 0
    durations: Histogram = field(default_factory=dict)
    delays: Histogram = field(default_factory=dict)

    def add(self, other: Statistic) -> None:
        """Add the figures of another span or name."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._merge(other.durations, other.delays)

    def count(self, endings: Endings) -> None:
        """Count attempts that ended alike."""
        number = endings.count
        self.seen += number
        self.runs += number
        match endings.outcome:
            case "succeeded":
                self.succeeded += number
            case "failed" | "timed_out":
                self.failed += number
            case "lost":
                self.lost += number
        if endings.state == "cancelled":
            self.cancelled += number
        elif endings.outcome in COUNTED:
            self.retried += number  # those that died are taken off again
        if endings.failed_before:
            self.recovered += number
        self.duration_sum += endings.duration_sum
        self.delay_sum += endings.delay_sum
        self._merge(endings.durations, endings.delays)

    def _merge(self, durations: Histogram, delays: Histogram) -> None:
        for mine, theirs in ((self.durations, durations), (self.delays, delays)):
            for bucket, count in theirs.items():
                mine[bucket] = mine.get(bucket, 0) + count

    def bury(self, number: int) -> None:
        """Count failures that were not followed by a retry."""
        self.dead += number
        self.retried -= number

    @property
    def mean_duration(self) -> timedelta | None:
        return _mean(self.duration_sum, self.durations)

    @property
    def mean_delay(self) -> timedelta | None:
        return _mean(self.delay_sum, self.delays)

    def duration(self, share: float) -> timedelta | None:
        """Return how long *share* of the attempts took at most."""
        return percentile(self.durations, share)

    def delay(self, share: float) -> timedelta | None:
        """Return how late *share* of the attempts began at most."""
        return percentile(self.delays, share)


COUNTS = (
    "seen", "runs", "succeeded", "failed", "retried", "dead", "cancelled", "lost", "recovered", "duration_sum",
    "delay_sum",
)  # fmt: skip
Marginals = dict[tuple[str, str], Statistic]  # (scope, name): figures


def floor(at: int, length: int) -> int:
    """Return the beginning of the span in which an instant lies."""
    return at - at % length


def fold(endings: Iterable[Endings], deaths: Iterable[Deaths]) -> dict[int, Marginals]:
    """Return the four marginals of each span in which something ended."""
    spans: dict[int, Marginals] = {}
    for each in endings:
        marginals = spans.setdefault(each.at, {})
        for key in _keys(each):
            marginals.setdefault(key, Statistic()).count(each)
        if each.queue == MACHINERY:
            marginals.setdefault(("total", ""), Statistic()).seen += each.count
    for death in deaths:
        for key in _keys(death):
            spans[death.at][key].bury(death.count)
    return {at: limit_names(marginals) for at, marginals in spans.items()}


def _keys(each: Endings | Deaths) -> list[tuple[str, str]]:
    """Return the marginals to which an ending belongs. Horae's own jobs count for their queue alone."""
    if each.queue == MACHINERY:
        return [("queue", MACHINERY)]
    # MariaDB compares names without the spaces at their end, so they must be one name here too.
    return [("total", ""), *((scope, name.rstrip(" ")) for scope, name in _names(each))]


def _names(each: Endings | Deaths) -> tuple[tuple[Scope, str], ...]:
    return ("queue", each.queue), ("handler", each.handler), ("owner", each.owner)


def merge(spans: Iterable[Mapping[tuple[str, str], Statistic]]) -> Marginals:
    """Add the marginals of several spans, for example those of sixty minutes to that of their hour."""
    found: Marginals = {}
    for marginals in spans:
        for key, figures in marginals.items():
            found.setdefault(key, Statistic()).add(figures)
    return limit_names(found)


def limit_names(marginals: Marginals, most: int = MOST_NAMES) -> Marginals:
    """Keep the names with most runs of each marginal, and count the rest as "other"."""
    if len(marginals) <= most:
        return marginals
    kept: Marginals = {}
    for scope in SCOPES:
        named = [(name, figures) for (each, name), figures in marginals.items() if each == scope]
        named.sort(key=lambda pair: (-pair[1].runs, pair[0]))
        kept |= {(scope, name): figures for name, figures in named[:most]}
        for _, figures in named[most:]:
            kept.setdefault((scope, OTHER), Statistic()).add(figures)
    return kept


def _mean(total: int, counts: Histogram) -> timedelta | None:
    number = sum(counts.values())
    return timedelta(microseconds=total // number) if number else None


@dataclass(frozen=True, slots=True)
class RollUp:
    """How far endings have been counted. All minutes before ``rolled_until`` are."""

    id: int = 1
    version: int = 0  # raised by every step, so that a step computed from an older state is thrown away
    rolled_until: int = 0
    ended_until: int = 0  # the end of the newest minute in which something ended
    checked_until: int = 0  # up to which minute those before it have been checked for late endings
    check_at: int = 0  # when to check next although nothing has ended since
    sampled_at: int = 0  # when depths were sampled last
    minutes_from: int = 0  # older minutes are no longer kept
    hours_from: int = 0
    days_from: int = 0
    last_number: int = 0  # the highest job number ever seen

    def kept_from(self, grain: Grain) -> int:
        """Return from when on spans of a grain are kept."""
        return {"minute": self.minutes_from, "hour": self.hours_from, "day": self.days_from}[grain]
