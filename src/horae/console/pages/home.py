"""Home: is all well, what needs you, what happened in the last twelve hours, and what comes in the next twelve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from horae.api.error_groups import ErrorGroup
from horae.api.operation import Sender
from horae.api.overview import Overview, OverviewRoom
from horae.api.rooms import Rooms
from horae.api.schedules.values import Schedule
from horae.api.statistics import Figures
from horae.console import drawing, series
from horae.console.ahead import Ahead, look_ahead
from horae.console.pages.workers import to_kill
from horae.console.rendering import MOST, number, render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.times import clock_time, relative
from horae.console.visitor import Visit
from horae.core.access.callers import Caller

doors = Doors()
HOUR = timedelta(hours=1)
REACH = 12 * HOUR  # shown before and after now
WIDTH, WIDER = timedelta(minutes=15), timedelta(minutes=30)  # of a bar; the wider ones where the screen is narrow
LISTED = 12


@dataclass(frozen=True)
class Need:
    """Something that needs a person: how bad it is, what it is, and where to go."""

    kind: str  # a state, for its shape and colour
    text: str
    detail: str = ""
    path: str = "/"
    link: str = ""


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
    needs = list(_needs(day.now))
    bars, wider = (_bars(day, visit.now, width) for width in (WIDTH, WIDER))
    return render(
        visit,
        "home.html",
        kill=await to_kill(visit),
        day=day,
        needs=needs,
        sentence=_sentence(day.now, needs),
        lead=_lead(day, visit.now),
        picture=_picture(visit, bars),
        narrow_picture=_picture(visit, wider),
        hours=_by_hour(bars),
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


def _sentence(seen: Overview, needs: Sequence[Need]) -> str:
    if not seen.has_jobs and not needs:
        return _("Ready. Nothing has run yet.")
    if not needs:
        return _("All well. Nothing needs you.")
    return ngettext("One thing needs you.", "%(num)s things need you.", len(needs))


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
        said.append(_("Next: %(key)s %(when)s.", key=coming[0].key, when=relative(coming[0].at, now)))
    return said


def _needs(seen: Overview) -> Iterator[Need]:
    """Return what needs a person, the worst first."""
    count = {name: number(getattr(seen, name), most=MOST) for name in ("dead", "stuck", "late", "confirmations")}
    if seen.unserved:
        text = ngettext(
            "No worker serves a queue with due jobs.",
            "No worker serves %(num)s queues with due jobs.",
            len(seen.unserved),
        )
        yield Need("dead", text, ", ".join(seen.unserved), "/jobs?q=state:queued+due:<=-1m", _("See the jobs"))
    if seen.stuck:
        text = ngettext(
            "One job is held by a worker that has gone silent.",
            "%(count)s jobs are held by workers that have gone silent.",
            seen.stuck,
            count=count["stuck"],
        )
        yield Need("dead", text, "", "/jobs?q=state:running", _("See the jobs"))
    if seen.overdue_schedules:
        text = ngettext(
            "One schedule is overdue and has not fired.",
            "%(num)s schedules are overdue and have not fired.",
            len(seen.overdue_schedules),
        )
        yield Need("dead", text, ", ".join(seen.overdue_schedules), "/schedules", _("See the schedules"))
    if seen.dead:
        text = ngettext("One job is dead.", "%(count)s jobs are dead.", seen.dead, count=count["dead"])
        yield Need("dead", text, "", "/jobs?q=state:dead", _("Look and revive"))
    if seen.new_errors:
        yield _new_errors(seen.new_errors)
    if seen.late and not seen.unserved:
        text = ngettext(
            "One job has been due for over a minute.",
            "%(count)s jobs have been due for over a minute.",
            seen.late,
            count=count["late"],
        )
        yield Need("late", text, "", "/jobs?q=state:queued+due:<=-1m", _("See the jobs"))
    if seen.inactive_schedules:
        text = ngettext(
            "One schedule is switched off by what it needs.",
            "%(num)s schedules are switched off by what they need.",
            len(seen.inactive_schedules),
        )
        yield Need("inactive", text, ", ".join(seen.inactive_schedules), "/schedules", _("See the schedules"))
    if seen.confirmations:
        text = ngettext(
            "An agent waits for your answer.",
            "%(count)s questions of agents wait for an answer.",
            seen.confirmations,
            count=count["confirmations"],
        )
        yield Need("late", text, "", "/attention", _("Answer"))
    if seen.reviews:
        text = ngettext(
            "A question of governance waits for a person.",
            "%(count)s questions of governance wait for a person.",
            seen.reviews,
            count=number(seen.reviews, most=MOST),
        )
        yield Need("late", text, "", "/governance/reviews", _("Answer"))
    if seen.paused:
        text = ngettext("One queue is paused.", "%(num)s queues are paused.", len(seen.paused))
        yield Need("paused", text, ", ".join(seen.paused), "/queues", _("See the queues"))


def _new_errors(groups: Sequence[ErrorGroup]) -> Need:
    """Return one line for all new errors, so that many of them do not hide the rest."""
    first = groups[0]
    if len(groups) == 1:
        text = _("New error: %(title)s", title=first.message.partition("\n")[0])
        times = ngettext("once", "%(num)s times", first.count)
        return Need("failed", text, f"{first.handler} · {times}", f"/jobs/{first.sample_job}", _("See a job"))
    text = ngettext("One new error since yesterday.", "%(num)s new errors since yesterday.", len(groups))
    return Need("failed", text, ", ".join(sorted({each.handler for each in groups})), "/errors", _("See the errors"))


# -- the picture -------------------------------------------------------------------------------------------------------


def _bars(day: Day, now: datetime, width: timedelta) -> list[series.Bin]:
    """Return the bars of the picture: what ended in the past, what fires ahead."""
    since, until = now - REACH, now + REACH
    past = series.collect(since, until, width, day.past, lambda each: each.at)
    spans = series.bins(since, until, width)
    ahead = [0] * len(spans) if day.ahead is None else day.ahead.counts(since, width)
    return [
        series.Bin(
            start,
            end,
            done=sum(each.succeeded + each.cancelled for each in ended),
            failed=sum(each.failed + each.lost for each in ended),
            fires=coming,
        )
        for (start, end), ended, coming in zip(spans, past, ahead, strict=True)
    ]


def _picture(visit: Visit, bars: Sequence[series.Bin]) -> Markup:
    zone = visit.clock.zone_for()
    window = drawing.Window(visit.now - REACH, visit.now + REACH, visit.now, zone)
    most = {name: max((getattr(each, name) for each in bars), default=0) for name in ("done", "failed", "fires")}
    shapes = []
    for each in bars:
        at = clock_time(each.start, visit.now, zone)
        make = partial(drawing.Shape, each.start, each.start + (each.end - each.start) * 3 / 4)
        if each.done:
            title = ngettext("%(at)s: one job done", "%(at)s: %(num)s jobs done", each.done, at=at)
            level = series.level(each.done, most["done"])
            shapes.append(make("done", title=title, side="down", level=level, ahead=False))
        if each.failed:
            title = ngettext("%(at)s: one attempt failed", "%(at)s: %(num)s attempts failed", each.failed, at=at)
            level = series.level(each.failed, most["failed"])
            shapes.append(make("failed", title=title, side="up", level=level, ahead=False))
        if each.fires:
            title = ngettext("%(at)s: one fire", "%(at)s: %(num)s fires", each.fires, at=at)
            level = series.level(each.fires, most["fires"])
            shapes.append(make("fire", title=title, side="down", level=level, ahead=True))
    name = _("Twelve hours behind and ahead: what was done, what failed, what will fire")
    label = _("now %(time)s", time=clock_time(visit.now, visit.now, zone))
    return drawing.band(window, shapes, name=name, now_label=label)


def _by_hour(bars: Sequence[series.Bin]) -> list[series.Bin]:
    """Return the bars by hour, for the table beside the picture; empty hours are left out."""
    found = []
    for start in range(0, len(bars), HOUR // WIDTH):
        part = bars[start : start + HOUR // WIDTH]
        sums = {name: sum(getattr(each, name) for each in part) for name in ("done", "failed", "fires")}
        if any(sums.values()):
            found.append(series.Bin(part[0].start, part[-1].end, **sums))
    return found
