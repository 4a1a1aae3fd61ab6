"""The report on governance: what became of it in a window, how things stand, and what is above its line."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from horae.actions.governance import report as reporting
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.governance.budgets import Budget
from horae.api.here import Here
from horae.api.jobs.room import Reason
from horae.api.operation import GET, Call, Room, S
from horae.api.values import drop_none, enrich, to_public
from horae.core.dataclass import dataclass
from horae.core.governance.report import SpanGrain
from horae.core.time.spans import Span, span
from horae.core.values import PYDANTIC

if TYPE_CHECKING:
    from horae.actions.budgets.budgets import BudgetView
    from horae.core.governance.report import Report

    Found = tuple[Report, list[BudgetView]]
USER = ("tasks", "review")


@dataclass(frozen=True, kw_only=True)
class ReportJobs:
    """What became of jobs about objects; each counts once in each field.

    ``success_rate`` is succeeded / (succeeded + dead), ``retry_rate`` retried / jobs, ``dead_rate`` dead / jobs; None
    where there was none.
    """

    __pydantic_config__ = PYDANTIC

    jobs: int = 0
    succeeded: int = 0
    retried: int = 0
    dead: int = 0
    put_back: int = 0
    success_rate: float | None = None
    retry_rate: float | None = None
    dead_rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReportState:
    """How many objects of a kind are in a state; that of cognition has two parts, ``stale/uncertain``."""

    __pydantic_config__ = PYDANTIC

    kind: str
    state: str
    count: int


@dataclass(frozen=True, kw_only=True)
class ReportLateness:
    """How late the actions are that are due and wait; counted up to 10,001, which means more than 10,000."""

    __pydantic_config__ = PYDANTIC

    count: int = 0
    p50: timedelta | None = None
    p95: timedelta | None = None
    longest: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class ReportSpan:
    """One day or week of a report: its jobs, how often objects went along each edge, and decisions by outcome."""

    __pydantic_config__ = PYDANTIC

    at: datetime
    until: datetime
    jobs: ReportJobs
    events: dict[str, int] = field(default_factory=dict)
    decisions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GovernanceReport:
    """Governance over a window, and as it is now.

    ``objects``, ``late``, ``reviews_open``, ``rollbacks_open`` and ``budgets`` are those of this moment; the rest is of
    the window, and ``series`` has it by day, or by week where it is longer than a month. ``reviews`` counts those
    opened in it by their answer. ``warnings`` are above their line; ``lines`` is the report in sentences. It is not
    ``complete`` where more was on record than is counted at once. ``incomplete`` names databases of a cluster that did
    not answer.
    """

    __pydantic_config__ = PYDANTIC

    since: datetime
    until: datetime
    grain: SpanGrain
    complete: bool
    objects: tuple[ReportState, ...]
    jobs: ReportJobs
    late: ReportLateness
    events: dict[str, int]
    decisions: dict[str, int]
    reviews_open: int
    reviews: dict[str, int]
    rollbacks_open: int
    budgets: tuple[Budget, ...]
    series: tuple[ReportSpan, ...]
    warnings: tuple[Reason, ...] = ()
    lines: tuple[Reason, ...] = ()
    incomplete: tuple[str, ...] = ()


class Governance(Room[S]):
    """Governance as a whole. A tenant sees what is its own."""

    @GET("/governance/report", *USER)
    def report(
        self,
        *,
        period: Span | None = None,
        until: datetime | None = None,
        owner: str | None = None,
    ) -> Call[GovernanceReport]:
        """Return what became of governed objects in a window, a week by default, read in one moment."""
        length = None if period is None else span(period)

        def read(here: Here) -> Found:
            return reporting.report(here.world, owner=here.caller.filter_owner(owner), period=length, until=until)

        query = drop_none(period=length, until=until, owner=owner)
        gather = over_all(read, lambda answers: _publish(merges.merge_reports(answers)), drained=True)
        return Call(GovernanceReport, lambda here: _publish(read(here)), query=query, gather=gather, is_scattered=True)


def _publish(found: Found) -> GovernanceReport:
    report, budgets = found
    made: GovernanceReport = enrich(
        GovernanceReport, report, budgets=tuple(to_public(Budget, each) for each in budgets)
    )
    return made
