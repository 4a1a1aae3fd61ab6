"""The report on governance: read in one moment, and bounded however much is on record."""

from __future__ import annotations

from datetime import datetime, timedelta

from horae.actions.budgets.budgets import BudgetView, budget_views
from horae.core.governance.report import (
    LONGEST,
    MOST_DUE,
    WEEK,
    Report,
    SpanGrain,
    grain_of,
    spans_of,
)
from horae.core.time.instants import aware, iso
from horae.errors import InvalidInput
from horae.ports.store import Tx
from horae.ports.world import World

MOST_COUNTED = 1_000_000  # objects, and entries of one window
MOST_BUDGETS = 100
MOST_OPEN = 10_001


def report(
    world: World, *, owner: str | None = None, period: timedelta | None = None, until: datetime | None = None
) -> tuple[Report, list[BudgetView]]:
    """Return the report on a window that ends now or at *until*, by default a week, and the budgets as they are now."""
    length, now = WEEK if period is None else period, world.clock.now()
    end = now if until is None else aware(until, "until")
    if not timedelta(0) < length <= LONGEST:
        raise InvalidInput("report_period_unfit", most_days=LONGEST.days)
    if end > now:
        raise InvalidInput("report_ahead", until=iso(end))
    grain: SpanGrain = grain_of(length)
    spans = spans_of(end - length, end, grain)

    def read(tx: Tx) -> tuple[Report, list[BudgetView]]:
        counted = tx.reports.count(owner, spans, now, most=MOST_COUNTED, most_due=MOST_DUE + 1)
        budgets = budget_views(tx, now, limit=MOST_BUDGETS, owner=owner)
        found = Report(
            since=spans[0][0],
            until=end,
            grain=grain,
            complete=counted.complete,
            objects=counted.objects,
            jobs=counted.jobs,
            lags=counted.lags,
            series=counted.series,
            reviews_open=tx.reviews.count_open(owner=owner, most=MOST_OPEN),
            reviews=counted.reviews,
            rollbacks_open=len(tx.rollbacks.find(owner=owner, states=("open",), limit=MOST_BUDGETS)),
            overdrawn=tuple(each.budget.id for each in budgets if each.period.overdrawn),
        )
        return found, budgets

    return world.route(owner=owner).store.read(read)
