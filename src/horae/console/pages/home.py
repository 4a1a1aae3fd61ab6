"""Home: is all well, what needs you, what happened in the last twelve hours, and what comes in the next twelve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import Response

from horae.api.operation import Sender
from horae.api.overview import Need, Overview, OverviewRoom
from horae.api.rooms import Rooms
from horae.api.schedules.values import Schedule
from horae.api.statistics import Figures
from horae.console import drawing, endings, series
from horae.console.ahead import Ahead, look_ahead, name_of
from horae.console.endings import REACH, WIDER, WIDTH
from horae.console.pages.workers import to_kill
from horae.console.rendering import MOST, number, render
from horae.console.routing import Doors
from horae.console.texts import _, gettext, mark, ngettext
from horae.console.times import clock_time, relative
from horae.console.visitor import Visit
from horae.core.access.callers import Caller
from horae.core.dataclass import dataclass
from horae.words.languages import Language

doors = Doors()
LISTED = 12


# How each need looks, and what its link says; where it leads follows from its room and filter.
NEEDS = {
    "unserved": ("dead", mark("See the jobs")),
    "stuck": ("dead", mark("See the jobs")),
    "overdue": ("dead", mark("See the schedules")),
    "missed": ("dead", mark("See the schedules")),
    "dead": ("dead", mark("Look and revive")),
    "new_errors": ("failed", mark("See the errors")),
    "late": ("late", mark("See the jobs")),
    "inactive": ("inactive", mark("See the schedules")),
    "confirmations": ("late", mark("Answer")),
    "reviews": ("late", mark("Answer")),
    "paused": ("paused", mark("See the queues")),
}


@dataclass(frozen=True)
class Line:
    """A need as it is shown: its shape and colour, its sentence, and where to go."""

    kind: str
    text: str
    path: str
    link: str


@dataclass(frozen=True)
class Day:
    """What Home reads."""

    now: Overview
    past: tuple[Figures, ...]
    total: Figures | None
    ahead: Ahead | None
    schedules: tuple[Schedule, ...] = ()  # those that fire next


@doors.page("/", OverviewRoom.get)
async def home(visit: Visit) -> Response:
    day = await visit.read(lambda rooms: _read(rooms, visit.known, visit.now))
    bars, wider = (_bars(day, visit.now, width) for width in (WIDTH, WIDER))
    return render(
        visit,
        "home.html",
        kill=await to_kill(visit),
        day=day,
        needs=[_line(need, visit.language) for need in day.now.needs],
        sentence=day.now.health.in_words(visit.language),
        lead=_lead(day, visit.now),
        picture=_picture(visit, bars),
        narrow_picture=_picture(visit, wider),
        hours=endings.by_hour(bars),
        address=visit.address,
    )


def _read(rooms: Rooms[Sender], caller: Caller, now: datetime) -> Day:
    by: Any = ("total", "") if caller.sees is None else ("owner", caller.sees)
    sees_figures = caller.may("read", "admin") and not caller.queues
    past = rooms.statistics.series(*by, grain="minute", since=now - REACH) if sees_figures else ()
    totals = rooms.statistics.list(by[0], since=now - timedelta(days=1)) if sees_figures else ()
    ahead = look_ahead(rooms, now, REACH) if sees_figures else None
    return Day(
        rooms.overview.get(),
        past,
        totals[0] if totals else None,
        ahead,
        _coming(rooms, now) if sees_figures else (),
    )


def _coming(rooms: Rooms[Sender], now: datetime) -> tuple[Schedule, ...]:
    """Return the schedules that fire within a day, each once, however often it fires."""
    found = rooms.schedules.list(enabled=True, order="next").page(None, limit=LISTED).items
    return tuple(each for each in found if each.next_fire_at is not None and each.next_fire_at < now + 2 * REACH)


# -- words -------------------------------------------------------------------------------------------------------------


def _lead(day: Day, now: datetime) -> list[str]:
    """Return what goes on, as short sentences."""
    seen, said = day.now, []
    if seen.workers:
        said.append(ngettext("One worker is at work.", "%(num)s workers are at work.", seen.workers))
    if seen.running:
        count = number(seen.running, most=MOST)
        said.append(ngettext("One job runs now.", "%(count)s jobs run now.", seen.running, count=count))
    if seen.due:
        count = number(seen.due, most=MOST)
        said.append(ngettext("One job is due.", "%(count)s jobs are due.", seen.due, count=count))
    coming = [] if day.ahead is None else [each for each in day.ahead.fires if each.at > now]
    if coming:
        name = name_of(coming[0], day.schedules)
        said.append(_("Next: %(key)s %(when)s.", key=name, when=relative(coming[0].at, now)))
    return said


def _line(need: Need, language: Language) -> Line:
    """Return a need in the language of the page, with its link."""
    kind, link = NEEDS[need.code]
    path = f"/{need.room}"
    if need.filter:
        path = "/governance/reviews" if need.room == "governance" else f"{path}?q={quote(need.filter)}"
    return Line(kind, need.in_words(language), path, gettext(link))


# -- the picture -------------------------------------------------------------------------------------------------------


def _bars(day: Day, now: datetime, width: timedelta) -> list[series.Bin]:
    """Return the bars of the picture: what ended in the past, what fires ahead."""
    since, until = now - REACH, now + REACH
    past = endings.bars(since, until, width, day.past)
    ahead = [0] * len(past) if day.ahead is None else day.ahead.counts(since, width)
    return [replace(ended, fires=coming) for ended, coming in zip(past, ahead, strict=True)]


def _picture(visit: Visit, bars: Sequence[series.Bin]) -> Markup:
    zone = visit.clock.zone_for()
    window = drawing.Window(visit.now - REACH, visit.now + REACH, visit.now, zone)
    most = max((each.fires for each in bars), default=0)
    shapes = list(endings.shapes(visit, bars))
    for each in bars:
        if each.fires:
            at = clock_time(each.start, visit.now, zone)
            title = ngettext("%(at)s: one fire", "%(at)s: %(num)s fires", each.fires, at=at)
            end = each.start + (each.end - each.start) * 3 / 4
            level = series.level(each.fires, most)
            shapes.append(drawing.Shape(each.start, end, "fire", title=title, side="down", level=level, ahead=True))
    name = _("Twelve hours behind and ahead: what was done, what failed, what will fire")
    label = _("now %(time)s", time=clock_time(visit.now, visit.now, zone))
    return drawing.band(window, shapes, name=name, now_label=label)
