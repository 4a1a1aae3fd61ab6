"""Calendars: named lists of days, the schedules that follow them, and which days come next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta

from babel.dates import format_date
from markupsafe import Markup
from starlette.responses import Response

from horae.api.schedules.calendars import Calendar, CalendarDetail, Calendars
from horae.console import drawing, texts, times
from horae.console.rendering import render
from horae.console.routing import Doors
from horae.console.texts import _, ngettext
from horae.console.visitor import Flash, Visit
from horae.core.dataclass import dataclass
from horae.core.schedules.day_lists import read_days
from horae.errors import InvalidInput, VersionConflict

doors = Doors()
DAY = timedelta(days=1)
DRAWN = 60  # days ahead in the picture
LOOKED_AHEAD = 400  # days: a date of every year is among them
NEXT = 8
LISTED = 3  # days of a line of the table


@dataclass(frozen=True)
class Row:
    """A line of the table: some of the days as they are written, and the next one that comes."""

    calendar: Calendar
    days: str
    next: str


@doors.page("/calendars", Calendars.list)
async def calendars(visit: Visit) -> Response:
    return await _list(visit)


async def _list(visit: Visit, problem: str = "") -> Response:
    found = await visit.read(lambda rooms: rooms.calendars.list())
    return render(
        visit,
        "calendars.html",
        422 if problem else 200,
        rows=[_row(each, _today(visit)) for each in found],
        sentence=ngettext("One calendar.", "%(num)s calendars.", len(found)) if found else _("No calendar yet."),
        problem=problem,
        form=visit.form,
        may_act=visit.may("admin"),
    )


@doors.page("/calendars/{name}", Calendars.get)
async def calendar(visit: Visit, name: str) -> Response:
    return await _show(visit, name)


async def _show(visit: Visit, name: str, problem: str = "", status: int = 200) -> Response:
    found = await visit.read(lambda rooms: rooms.calendars.get(name))
    coming = list(_coming(found, _today(visit), LOOKED_AHEAD))
    return render(
        visit,
        "calendar.html",
        status,
        calendar=found,
        sentence=_sentence(found, coming, _today(visit)),
        picture=_picture(visit, found),
        coming=[(_away(each, _today(visit)), day_words(each)) for each in coming[:NEXT]],
        edited=visit.form.get("days") if problem else "\n".join(found.days),
        edited_title=visit.form.get("title", "") if problem else found.title or "",
        problem=problem,
        may_act=visit.may("admin"),
    )


@doors.act("/calendars", Calendars.set)
async def make(visit: Visit) -> Response:
    """Make a calendar; one of that name that is there already is not touched."""
    name, days = visit.form.get("name", "").strip(), _days(visit)
    title, reason = _text(visit, "title") or None, _text(visit, "reason")
    try:
        await visit.act(lambda rooms: rooms.calendars.set(name, days, title=title, version=0, reason=reason))
    except VersionConflict:
        return await _list(visit, _("There is a calendar %(name)s already: open it to change its days.", name=name))
    except InvalidInput as refusal:
        return await _list(visit, refusal.in_words(visit.language))
    return visit.redirect(f"/calendars/{name}", Flash(_("%(name)s is stored. Schedules can follow it now.", name=name)))


@doors.act("/calendars/{name}", Calendars.set)
async def change(visit: Visit, name: str) -> Response:
    """Replace the days; refused where another visitor has changed them since the form was opened."""
    days, version = _days(visit), visit.form.get("version", "")
    title, reason = _text(visit, "title") or None, _text(visit, "reason")
    await visit.read(lambda rooms: rooms.calendars.get(name))  # a form changes only what is there
    known = int(version) if version.isascii() and version.isdecimal() and len(version) < 10 else -1
    try:
        await visit.act(lambda rooms: rooms.calendars.set(name, days, title=title, version=known, reason=reason))
    except VersionConflict:
        text = _("Somebody else has changed it meanwhile. Below is what you wrote; store it again to replace theirs.")
        return await _show(visit, name, text, 409)
    except InvalidInput as refusal:
        return await _show(visit, name, refusal.in_words(visit.language), 422)
    return visit.redirect(f"/calendars/{name}", Flash(_("Stored. The schedules that follow it have new times.")))


@doors.act("/calendars/{name}/delete", Calendars.delete)
async def delete(visit: Visit, name: str) -> Response:
    reason = _text(visit, "reason")
    await visit.act(lambda rooms: rooms.calendars.delete(name, reason=reason))
    return visit.redirect("/calendars", Flash(_("%(name)s is deleted.", name=name)))


def _text(visit: Visit, name: str) -> str:
    return visit.form.get(name, "").strip()


def _days(visit: Visit) -> list[str]:
    """Return the days that a form names, one on a line or apart by commas and spaces."""
    return [each for each in re.split(r"[\s,，、]+", visit.form.get("days", "")) if each]


# -- what the pages show -----------------------------------------------------------------------------------------------


def _today(visit: Visit) -> date:
    return visit.now.astimezone(visit.clock.zone_for()).date()


def _coming(found: Calendar, today: date, ahead: int) -> Iterator[date]:
    days = read_days(found.days)
    for count in range(ahead):
        if today + count * DAY in days:
            yield today + count * DAY


def day_words(day: date) -> str:
    """Return a day as a person reads it, with its weekday."""
    pattern = "y年M月d日 EEEE" if texts.current() == "zh" else "EEEE, d MMMM y"
    return format_date(day, pattern, locale=texts.BABEL[texts.current()])


def _away(day: date, today: date) -> str:
    return _("today") if day == today else ngettext("tomorrow", "in %(num)s days", (day - today).days)


def _row(found: Calendar, today: date) -> Row:
    first = next(_coming(found, today, LOOKED_AHEAD), None)
    days = ", ".join(found.days[:LISTED]) + (" …" if len(found.days) > LISTED else "")
    return Row(found, days, "–" if first is None else day_words(first))


def _sentence(found: CalendarDetail, coming: Sequence[date], today: date) -> str:
    if not coming:
        return _("None of its days comes within a year.")
    if coming[0] == today:
        return _("Today is one of its days.")
    return ngettext(
        "Tomorrow is the next of its days.", "The next of its days comes in %(num)s days.", (coming[0] - today).days
    )


def _picture(visit: Visit, found: Calendar) -> Markup:
    """Draw its days in the next two months, days in a row as one."""
    zone, today = visit.clock.zone_for(), _today(visit)

    def midnight(day: date) -> datetime:
        return datetime(day.year, day.month, day.day, tzinfo=zone)

    window = drawing.Window(midnight(today - DAY), midnight(today + DRAWN * DAY), visit.now, zone)
    shapes, days = [], list(_coming(found, today, DRAWN))
    while days:
        first = last = days.pop(0)
        while days and days[0] == last + DAY:
            last = days.pop(0)
        name = times.day(midnight(first)) + ("" if last == first else f" – {times.day(midnight(last))}")
        shapes.append(drawing.Shape(midnight(first), midnight(last + DAY), "waiting", name, side="up", ahead=True))
    label = _("today")
    title = _("Its days in the next two months")
    return drawing.band(window, shapes, name=title, now_label=label, size=drawing.Size(above=36, below=2))
