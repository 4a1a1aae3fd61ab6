"""Schedules: what fires next, how it went lately, and what does not fire and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup
from starlette.responses import Response

from horae.api.operation import Page, Sender
from horae.api.rooms import Rooms
from horae.api.schedules.room import Schedules
from horae.api.schedules.values import Schedule, ScheduleResult
from horae.console import drawing, series, states, times
from horae.console.ahead import Ahead, look_ahead, name_of
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, listed, ngettext
from horae.console.visitor import Visit
from horae.core.dataclass import dataclass

doors = Doors()
PAGE = 50
RESULTS = 20
AHEAD, BEHIND = timedelta(hours=24), timedelta(hours=1)
WIDTH, WIDER = timedelta(minutes=15), timedelta(hours=1)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    schedule: Schedule
    words: str
    status: str  # late where it should have fired
    strip: Markup
    failed: int


@doors.page("/schedules", Schedules.list)
async def schedules(visit: Visit) -> Response:
    text, order = visit.query.get("text", "").strip(), visit.query.get("order", "next")
    cursor = visit.query.get("cursor")
    page, ahead = await visit.read(lambda rooms: _read(rooms, visit.now, text, order, cursor))
    return render(
        visit,
        "schedules.html",
        rows=[_row(visit, each) for each in page.items],
        next_cursor=page.next_cursor,
        text=text,
        order=order if order == "key" else "next",
        ahead=ahead,
        sentence=_sentence(page.items, ahead, visit.now),
        picture=_picture(visit, ahead, WIDTH),
        narrow_picture=_picture(visit, ahead, WIDER),
        states=states,
        is_first=cursor is None,
        may_act=visit.may("admin"),
        owner_of=owner_of,
    )


def _read(
    rooms: Rooms[Sender], now: datetime, text: str, order: str, cursor: str | None
) -> tuple[Page[Schedule], Ahead]:
    found = rooms.schedules.list(text=text or None, order="key" if order == "key" else "next", results=RESULTS)
    return found.page(cursor, limit=PAGE), look_ahead(rooms, now, AHEAD)


def owner_of(schedule: Schedule) -> str | None:
    """Return the owner for the address of a schedule; None for the house, which need not be named."""
    return None if schedule.owner == "system" else schedule.owner


def _row(visit: Visit, schedule: Schedule) -> Row:
    results = tuple(reversed(schedule.results))
    failed = sum(each.outcome not in ("succeeded", "cancelled") for each in results)
    status = "late" if schedule.status == "active" and _is_late(schedule, visit.now) else schedule.status
    return Row(schedule, schedule.words_in(visit.language), status, results_strip(visit, results), failed)


def _is_late(schedule: Schedule, now: datetime) -> bool:
    return schedule.next_fire_at is not None and schedule.next_fire_at < now - states.LATE


def results_strip(visit: Visit, results: Sequence[ScheduleResult], most: int = RESULTS) -> Markup:
    """Draw the last results of a schedule, the oldest first, in a place that is wide enough for *most* of them."""
    zone = visit.clock.zone_for()
    drawn = [
        (states.DRAWN.get(each.outcome, "skipped"),
         f"{times.clock_time(each.finished_at, visit.now, zone)} {states.word(each.outcome)}")
        for each in results
    ]  # fmt: skip
    counted = Counter(states.word(each.outcome) for each in results)
    counts = listed(f"{count} {word}" for word, count in counted.most_common())
    name = _("Last results: %(counts)s", counts=counts) if counts else _("No result yet")
    return drawing.strip(drawn, name=name, most=most)


def _sentence(schedules: Sequence[Schedule], ahead: Ahead, now: datetime) -> str:
    coming = next((each for each in ahead.fires if each.at > now), None)
    if coming is not None:
        return _("%(key)s fires next, %(when)s.", key=name_of(coming, schedules), when=times.relative(coming.at, now))
    if schedules:
        return _("Nothing fires in the next 24 hours.")
    return _("No schedule yet.")


def _picture(visit: Visit, ahead: Ahead, width: timedelta) -> Markup:
    """Draw the fires of the next day."""
    now, zone = visit.now, visit.clock.zone_for()
    window = drawing.Window(now - BEHIND, now + AHEAD, now, zone)
    spans = series.bins(now, now + AHEAD, width)
    counts = ahead.counts(now, width)
    most = max(counts, default=0)
    shapes = [
        drawing.Shape(
            start, start + (end - start) * 3 / 4, "fire",
            ngettext("%(at)s: one fire", "%(at)s: %(num)s fires", count, at=times.clock_time(start, now, zone)),
            side="up", level=series.level(count, most), ahead=True,
        )
        for (start, end), count in zip(spans, counts, strict=True)
        if count
    ]  # fmt: skip
    label = _("now %(time)s", time=times.clock_time(now, now, zone))
    name = ngettext("One fire in the next 24 hours", "%(num)s fires in the next 24 hours", ahead.total)
    return drawing.band(window, shapes, name=name, now_label=label, size=drawing.Size(above=56, below=2))
