"""Statistics of endings: how many, how long they took, how late they began; by queue, handler and owner."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from horae.actions import statistics
from horae.api import merges
from horae.api.everywhere import over_all
from horae.api.here import Here
from horae.api.operation import GET, Call, Room, S
from horae.api.values import Get, drop_none
from horae.core.cursors import page_size
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import label
from horae.core.statistics import MOST_NAMES, Grain, Scope
from horae.core.values import PYDANTIC

ADMIN = ("admin",)
COUNTS = ("runs", "succeeded", "failed", "retried", "dead", "cancelled", "lost")


def _count(name: str) -> Get:
    return lambda each: getattr(each.figures, name)


def _share(of: str, share: float) -> Get:
    return lambda each: getattr(each.figures, of)(share)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What ended in a span of time: attempts, and what became of their jobs.

    A percentile is at most 19 % too high. ``delay`` is how long after its due time a job's last attempt began.
    ``depth`` is the most due jobs of a queue that a sample found, once a minute, counted up to 10,000.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        **{name: _count(name) for name in COUNTS},
        "duration_mean": _count("mean_duration"),
        "duration_p50": _share("duration", 0.5),
        "duration_p95": _share("duration", 0.95),
        "duration_p99": _share("duration", 0.99),
        "delay_mean": _count("mean_delay"),
        "delay_p50": _share("delay", 0.5),
        "delay_p95": _share("delay", 0.95),
        "delay_p99": _share("delay", 0.99),
    }

    name: str
    at: datetime
    until: datetime
    runs: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    lost: int = 0
    duration_mean: timedelta | None = None
    duration_p50: timedelta | None = None
    duration_p95: timedelta | None = None
    duration_p99: timedelta | None = None
    delay_mean: timedelta | None = None
    delay_p50: timedelta | None = None
    delay_p95: timedelta | None = None
    delay_p99: timedelta | None = None
    depth: int | None = None


class Statistics(Room[S]):
    """What ended, counted by minute, hour and day. A tenant sees its own figures, by ``owner``."""

    @GET("/statistics/{by}", *ADMIN)
    def list(
        self, by: Scope = "queue", *, since: datetime | None = None, until: datetime | None = None, limit: int = 100
    ) -> Call[tuple[Figures, ...]]:
        """Return the figures of a window by name, those with most runs first; default: the last 24 hours.

        Up to 6 hours are counted from minutes, up to 10 days from hours, else from days. Endings count a minute or two
        after they happened.
        """
        page_size(limit)

        def fetch(here: Here) -> Any:
            return statistics.totals(
                here.world, by, since=since, until=until, limit=limit, owner=here.caller.sees
            )  # fmt: skip

        def fetch_all(here: Here) -> Any:  # what is cut here may be among the first over all databases
            return statistics.totals(
                here.world, by, since=since, until=until, limit=MOST_NAMES, owner=here.caller.sees
            )  # fmt: skip

        query = drop_none(since=since, until=until, limit=limit)
        gather = over_all(fetch_all, partial(merges.merge_figures, limit=limit), drained=True)
        return Call(tuple[Figures, ...], fetch, at={"by": by}, query=query, gather=gather, is_scattered=True)

    @GET("/statistics/{by}/series", *ADMIN)
    def series(
        self,
        by: Scope = "total",
        name: str = "",
        *,
        grain: Grain = "hour",
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Call[tuple[Figures, ...]]:
        """Return figures over time, the oldest first; spans in which nothing ended are left out.

        Minutes are kept for 2 days, hours for 35, days for 400. Default: the last 2 hours, 2 days or 30 days.
        """

        def fetch(here: Here) -> Any:
            return statistics.series(
                here.world, by, name, grain=grain, since=since, until=until, owner=here.caller.sees
            )  # fmt: skip

        if name:
            label(name, "name")
        query = drop_none(name=name or None, grain=grain, since=since, until=until)
        gather = over_all(fetch, merges.merge_figures, drained=True)
        return Call(tuple[Figures, ...], fetch, at={"by": by}, query=query, gather=gather, is_scattered=True)
