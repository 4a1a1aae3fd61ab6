"""What ended, as bars of a band: what was done goes down from the line, what failed goes up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from markupsafe import Markup

from horae.api.statistics import Figures
from horae.console import drawing, series
from horae.console.texts import _, ngettext
from horae.console.times import clock_time
from horae.console.visitor import Visit

HOUR = timedelta(hours=1)
REACH = 12 * HOUR  # shown before now
WIDTH, WIDER = timedelta(minutes=15), timedelta(minutes=30)  # of a bar; the wider ones where the screen is narrow


def bars(since: datetime, until: datetime, width: timedelta, figures: Iterable[Figures]) -> list[series.Bin]:
    """Return how much was done and how much failed in each bar of a window."""
    spans = series.bins(since, until, width)
    return [
        series.Bin(
            start,
            end,
            done=sum(each.succeeded + each.cancelled for each in ended),
            failed=sum(each.failed + each.lost for each in ended),
        )
        for (start, end), ended in zip(
            spans, series.collect(since, until, width, figures, lambda each: each.at), strict=True
        )
    ]


def shapes(visit: Visit, found: Sequence[series.Bin]) -> Iterator[drawing.Shape]:
    """Return the bars as shapes of a band."""
    zone = visit.clock.zone_for()
    most = {name: max((getattr(each, name) for each in found), default=0) for name in ("done", "failed")}
    for each in found:
        at = clock_time(each.start, visit.now, zone)
        make = partial(drawing.Shape, each.start, each.start + (each.end - each.start) * 3 / 4)
        if each.done:
            title = ngettext("%(at)s: one job done", "%(at)s: %(num)s jobs done", each.done, at=at)
            yield make("done", title=title, side="down", level=series.level(each.done, most["done"]), ahead=False)
        if each.failed:
            title = ngettext("%(at)s: one attempt failed", "%(at)s: %(num)s attempts failed", each.failed, at=at)
            yield make("failed", title=title, side="up", level=series.level(each.failed, most["failed"]), ahead=False)


def past(visit: Visit, figures: Sequence[Figures], width: timedelta) -> Markup:
    """Draw the last twelve hours."""
    since = visit.now - REACH
    found = bars(since, visit.now, width, figures)
    window = drawing.Window(since, visit.now, visit.now, visit.clock.zone_for())
    name, size = _("The last twelve hours: what was done, what failed"), drawing.Size(above=28, below=44)
    return drawing.band(window, shapes(visit, found), name=name, now_label=_("now"), size=size)


def by_hour(found: Sequence[series.Bin], width: timedelta = WIDTH) -> list[series.Bin]:
    """Return bars by hour, for the table beside a picture; empty hours are left out."""
    hours = []
    for start in range(0, len(found), HOUR // width):
        part = found[start : start + HOUR // width]
        sums = {name: sum(getattr(each, name) for each in part) for name in ("done", "failed", "fires")}
        if any(sums.values()):
            hours.append(series.Bin(part[0].start, part[-1].end, **sums))
    return hours
