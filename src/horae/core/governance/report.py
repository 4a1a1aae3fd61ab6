"""The report on governance: what became of the jobs about objects in a window, how things stand, and what is wrong.

The formulas and the lines at which a figure becomes a warning are those of document 000's origin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, field
from datetime import datetime, timedelta
from typing import Literal

from horae.core.dataclass import dataclass
from horae.core.jobs.reasons import Reason
from horae.core.time.instants import iso

SpanGrain = Literal["day", "week"]
DAY, WEEK = timedelta(days=1), timedelta(days=7)
LENGTHS: Mapping[SpanGrain, timedelta] = {"day": DAY, "week": WEEK}
LONGEST = timedelta(days=400)
BY_DAY = timedelta(days=31)  # longer windows are counted by week
MOST_RETRIED = 0.2  # share of jobs with a failed attempt, above which the report warns
LATEST = timedelta(seconds=300)  # 95th percentile of lateness, above which the report warns
MOST_DUE = 10_000  # due objects whose lateness is read


@dataclass(frozen=True, slots=True)
class JobCounts:
    """What became of the jobs about objects; each job counts once in each column."""

    jobs: int = 0  # that were admitted or ended
    succeeded: int = 0
    retried: int = 0  # with at least one attempt that failed or was lost
    dead: int = 0
    put_back: int = 0  # by a gate or a budget

    @property
    def success_rate(self) -> float | None:
        return _share(self.succeeded, self.succeeded + self.dead)

    @property
    def retry_rate(self) -> float | None:
        return _share(self.retried, self.jobs)

    @property
    def dead_rate(self) -> float | None:
        return _share(self.dead, self.jobs)


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many objects of a kind are in a state."""

    kind: str
    state: str
    count: int


@dataclass(frozen=True, slots=True)
class ReportSpan:
    """One day or week of a report."""

    at: datetime
    until: datetime
    jobs: JobCounts = JobCounts()
    events: Mapping[str, int] = field(default_factory=dict)  # how often objects went along each edge
    decisions: Mapping[str, int] = field(default_factory=dict)  # by outcome


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the actions are that are due and wait; ``count`` goes up to ``MOST_DUE`` and one more."""

    count: int = 0
    p50: timedelta | None = None
    p95: timedelta | None = None
    longest: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What the tables say about a window; *complete* is False where more was on record than was counted."""

    objects: tuple[StateCount, ...]
    lags: tuple[timedelta, ...]
    jobs: JobCounts
    series: tuple[ReportSpan, ...]
    reviews: Mapping[str, int]
    complete: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What one reading found."""

    since: datetime
    until: datetime
    grain: SpanGrain
    complete: bool  # False: more was on record than is counted at once, and the oldest was left out
    objects: tuple[StateCount, ...]
    jobs: JobCounts
    lags: tuple[timedelta, ...]  # of actions that are due and wait
    series: tuple[ReportSpan, ...]
    reviews_open: int = 0
    reviews: Mapping[str, int] = field(default_factory=dict)  # opened in the window, by answer; "open" without one
    rollbacks_open: int = 0
    overdrawn: tuple[str, ...] = ()  # budgets

    @property
    def late(self) -> Lateness:
        return lateness_of(self.lags)

    @property
    def events(self) -> dict[str, int]:
        return add_counts(each.events for each in self.series)

    @property
    def decisions(self) -> dict[str, int]:
        return add_counts(each.decisions for each in self.series)

    @property
    def warnings(self) -> tuple[Reason, ...]:
        """What is above its line, the worst first."""
        return tuple(_warnings(self))

    @property
    def lines(self) -> tuple[Reason, ...]:
        """The report in sentences."""
        return tuple(_lines(self))


def lateness_of(lags: Sequence[timedelta]) -> Lateness:
    """Return percentiles of how late things are, by rank."""
    if not lags:
        return Lateness()
    known = sorted(lags)
    p50, p95 = (known[max(0, math.ceil(share * len(known)) - 1)] for share in (0.5, 0.95))
    return Lateness(min(len(known), MOST_DUE + 1), p50, p95, known[-1])


def grain_of(period: timedelta) -> SpanGrain:
    return "day" if period <= BY_DAY else "week"


def spans_of(since: datetime, until: datetime, grain: SpanGrain) -> list[tuple[datetime, datetime]]:
    """Return the days or weeks of a window, counted back from its end, the oldest first."""
    length, spans, end = LENGTHS[grain], [], until
    while end > since:
        begin = max(since, end - length)
        spans.append((begin, end))
        end = begin
    return spans[::-1]


def add_jobs(counted: Iterable[JobCounts]) -> JobCounts:
    """Return what became of the jobs of several databases."""
    return JobCounts(*(sum(column) for column in zip(*map(astuple, counted), strict=True)))


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def add_counts(spans: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add counts by name, the largest first."""
    found: dict[str, int] = {}
    for counts in spans:
        for name, count in counts.items():
            found[name] = found.get(name, 0) + count
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _warnings(report: Report) -> list[Reason]:
    jobs, found = report.jobs, []
    if jobs.dead:
        found.append(Reason("dead_letters", "report_dead_letters", {"count": jobs.dead}))
    if (jobs.retry_rate or 0) > MOST_RETRIED:
        facts = {"share": _percent(jobs.retry_rate), "most": _percent(MOST_RETRIED)}
        found.append(Reason("retries", "report_many_retries", facts))
    if report.late.p95 is not None and report.late.p95 > LATEST:
        seconds = round(report.late.p95.total_seconds())
        late = {"seconds": seconds, "most": round(LATEST.total_seconds())}
        found.append(Reason("late", "report_late", late))
    if report.overdrawn:
        found.append(Reason("overdrawn", "report_overdrawn", {"names": list(report.overdrawn[:5])}))
    if report.rollbacks_open:
        found.append(Reason("rollback_open", "report_rollback_open", {"count": report.rollbacks_open}))
    if not report.complete:
        found.append(Reason("incomplete", "report_incomplete"))
    return found


def _lines(report: Report) -> list[Reason]:
    jobs, late = report.jobs, report.late
    window = {"since": iso(report.since)[:10], "until": iso(report.until)[:10]}
    lines = [Reason("window", "report_window", window)]
    total = sum(each.count for each in report.objects)
    live = sum(each.count for each in report.objects if each.state.partition("/")[0] not in ("archived", "retracted"))
    lines.append(Reason("objects", "report_objects", {"total": total, "live": live}))
    counts = {"jobs": jobs.jobs, "succeeded": jobs.succeeded, "put_back": jobs.put_back, "dead": jobs.dead}
    rates = {"success": _percent(jobs.success_rate), "retry": _percent(jobs.retry_rate)}
    lines.append(Reason("jobs", "report_jobs", {**counts, **rates}))
    if late.p50 is None or late.p95 is None or late.longest is None:
        lines.append(Reason("late", "report_nothing_due"))
    else:
        seconds = {name: round(getattr(late, name).total_seconds()) for name in ("p50", "p95", "longest")}
        lines.append(Reason("late", "report_due", {"count": late.count, **seconds}))
    answered = sum(count for answer, count in report.reviews.items() if answer != "open")
    reviews = {"waiting": report.reviews_open, "opened": sum(report.reviews.values()), "answered": answered}
    lines.append(Reason("reviews", "report_reviews", reviews))
    return lines


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"
