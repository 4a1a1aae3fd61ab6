"""Statements that add up the statistics. Made once, because each scrape needs them: making takes as long as running."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, bindparam, case, func, literal_column, select, union_all

from horae.core.statistics import ENDS, LENGTHS, OUTCOMES
from horae.stores.tables.statistics import stats

MOST_NAMED = 100  # spans that are named one by one
Window = tuple[str, int, int]  # the spans of a grain, and from when to when
SUMMED = (*ENDS, "recovered")
TOTALS = (stats.c.name, func.min(stats.c.at), *(func.sum(stats.c[name]) for name in SUMMED))
OF_QUEUE = stats.c.scope == "queue"
RECENT = (
    select(
        stats.c.scope, stats.c.name, *(func.sum(stats.c[name]) for name in ("runs", *OUTCOMES)),
        func.sum(case((OF_QUEUE, stats.c.delay_sum), else_=stats.c.duration_sum)),
        func.aggregate_strings(case((OF_QUEUE, stats.c.delays), else_=stats.c.durations), " "),
    )
    .where(
        stats.c.grain == literal_column("'minute'"), stats.c.scope.in_(("queue", "handler")),
        stats.c.at.in_(bindparam("spans", expanding=True)),
    )
    .group_by(stats.c.scope, stats.c.name)
)  # fmt: skip


@cache
def totals_query(shapes: tuple[tuple[int, bool, bool], ...]) -> CompoundSelect[Any]:
    """Return the statement of the sums of windows: each has a number, and spans or a name may be given."""
    parts = []
    for index, spans_named, name_given in shapes:
        at = stats.c.at
        spans = [at.in_(bindparam(f"spans{index}", expanding=True))]
        bounds = [at >= bindparam(f"start{index}"), at < bindparam(f"end{index}")]
        query = select(literal_column(str(index)), *TOTALS).where(
            stats.c.grain == bindparam(f"grain{index}"), stats.c.scope == bindparam(f"scope{index}"),
            *(spans if spans_named else bounds), *([stats.c.name == bindparam(f"name{index}")] if name_given else []),
        )  # fmt: skip
        parts.append(query.group_by(stats.c.name))
    return union_all(*parts)


def named_spans(grain: str, start: int, end: int) -> Sequence[int] | None:
    """Return the spans of a window if they are few: named one by one the key leads to one marginal of each."""
    length = next((length for name, length in LENGTHS.items() if name == grain), None)
    spans = None if length is None else spans_between(start, end, length)
    return spans if spans and len(spans) <= MOST_NAMED else None


def spans_between(start: int, end: int, length: int) -> range:
    """Return the beginnings of the spans inside a window."""
    return range(-(-start // length) * length, end, length)


def within(grain: str, start: int, end: int) -> tuple[ColumnElement[bool], ...]:
    """Keep the spans of a window."""
    spans = named_spans(grain, start, end)
    if spans is not None:
        return stats.c.grain == grain, stats.c.at.in_(spans)
    return stats.c.grain == grain, stats.c.at >= start, stats.c.at < end
