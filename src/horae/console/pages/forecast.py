"""Forecast: when everything fires over two weeks, what piles up, when it is quiet, and beside it what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import groupby

from babel.dates import format_date
from markupsafe import Markup
from starlette.responses import Response

from horae.api.schedules.room import Schedules
from horae.api.schedules.timetable import Timetable, TimetableHour
from horae.console import drawing, series, texts, times
from horae.console.rendering import number, render
from horae.console.routing import Doors
from horae.console.texts import _, listed, ngettext
from horae.console.visitor import Visit
from horae.core.dataclass import dataclass
from horae.core.time.instants import from_iso, iso
from horae.errors import InvalidInput

doors = Doors()
DAYS, PAST = 14, 7
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PILES, QUIET = 5, 3  # listed at most
SHORTEST_QUIET = 2  # hours


@dataclass(frozen=True)
class Cell:
    """One hour of the grid; where clocks go back, two hours are one cell."""

    at: datetime
    fires: int = 0
    ran: int = 0
    missed: int = 0

    @property
    def total(self) -> int:
        return self.fires + self.ran + self.missed


@dataclass(frozen=True)
class Row:
    """One day of the grid, its hours by their number on the reader's clock."""

    day: date
    name: str
    cells: Mapping[int, Cell]
    is_today: bool

    @property
    def sums(self) -> tuple[int, int, int]:
        cells = self.cells.values()
        return sum(each.fires for each in cells), sum(each.ran for each in cells), sum(each.missed for each in cells)


@dataclass(frozen=True)
class Quiet:
    """A stretch of hours in which as little fires as in no other."""

    begin: datetime
    hours: int
    fires: int  # in each hour


@doors.page("/forecast", Schedules.timetable)
async def forecast(visit: Visit) -> Response:
    zone, zone_name = chosen_zone(visit)
    hour = _hour(visit)
    found = await visit.read(lambda rooms: rooms.schedules.timetable(days=DAYS, past=PAST, zone=zone_name, hour=hour))
    rows = rows_of(found, zone)
    ahead = sum(each.fires for each in found.hours)
    return render(
        visit,
        "forecast.html",
        found=found,
        rows=rows,
        chosen=hour,
        chosen_name=None if hour is None else hour_name(hour, zone),
        is_past=any(each.ran or each.missed for each in found.entries),
        is_ahead=any(each.fires for each in found.entries),
        zone_name=zone_name,
        sentence=_sentence(found, ahead, zone),
        lead=list(_lead(visit, found, ahead)),
        picture=picture(visit, rows, zone),
        piles=[(each, hour_name(each.minute, zone)) for each in found.pile_ups[:PILES]],
        quiet=[(each, hour_name(each.begin, zone)) for each in quiet_windows(found, visit.now)],
        ahead=ahead,
        iso=iso,
        choice="utc" if zone_name == "UTC" else "mine",
        may_choose=visit.clock.browser is not None,
    )


def chosen_zone(visit: Visit) -> tuple[tzinfo, str]:
    """Return the zone of the hours and its name: the reader's own, or UTC."""
    browser = visit.clock.browser
    if visit.clock.choice == "mine" and browser is not None:
        return times.zone_named(browser) or UTC, browser
    return UTC, "UTC"


def _hour(visit: Visit) -> datetime | None:
    text = visit.query.get("hour")
    try:
        return None if not text else from_iso(text)
    except (InvalidInput, ValueError):
        return None


# -- words -------------------------------------------------------------------------------------------------------------


def _sentence(found: Timetable, ahead: int, zone: tzinfo) -> str:
    if found.pile_ups:
        worst = found.pile_ups[0]
        there = worst.minute.astimezone(zone)
        day, time = _date(there.date(), long=True), f"{there:%H:%M}"
        return _("%(count)s fires at once on %(day)s at %(time)s.", count=number(worst.fires), day=day, time=time)
    if ahead:
        return _("Nothing piles up in the next 14 days.")
    return _("Nothing fires in the next 14 days.") if found.schedules else _("No schedule yet.")


def _lead(visit: Visit, found: Timetable, ahead: int) -> Iterator[str]:
    if ahead:
        yield ngettext(
            "One schedule fires %(count)s times.",
            "%(num)s schedules fire %(count)s times.",
            found.schedules,
            count=number(ahead),
        )
    ran, missed = sum(each.ran for each in found.hours), sum(each.missed for each in found.hours)
    if ran or missed:
        yield _("In the past 7 days %(ran)s fires ran, %(missed)s did not.", ran=number(ran), missed=number(missed))
    zone, _name = chosen_zone(visit)
    if not found.complete:
        yield _("There are so many that the look ahead ends at %(when)s.", when=hour_name(found.until, zone))
    if not found.past_complete:
        yield _("The look back ends at %(when)s.", when=hour_name(found.since, zone))


def hour_name(at: datetime, zone: tzinfo) -> str:
    """Return an instant with the name of its day: "Monday 7 Jan, 03:00"."""
    there = at.astimezone(zone)
    return f"{_date(there.date(), long=True)} {there:%H:%M}"


def _date(day: date, *, long: bool = False) -> str:
    locale = texts.BABEL[texts.current()]
    pattern = (
        ("M月d日 EEEE" if long else "M-d EEE") if texts.current() == "zh" else "EEEE d MMM" if long else "EEE d MMM"
    )
    return str(format_date(day, pattern, locale=locale))


# -- the grid ----------------------------------------------------------------------------------------------------------


def rows_of(found: Timetable, zone: tzinfo) -> list[Row]:
    """Return the days, from the first that was looked at to the last, each with its hours."""
    cells: dict[date, dict[int, Cell]] = {}
    for each in found.hours:
        there = each.at.astimezone(zone)
        day = cells.setdefault(there.date(), {})
        day[there.hour] = _joined(day.get(there.hour), each)
    first, last = found.since.astimezone(zone).date(), found.until.astimezone(zone).date()
    today = found.now.astimezone(zone).date()
    first = min([each for each in cells if each >= first], default=today)  # days before that are empty
    days = [min(first, today) + timedelta(days=count) for count in range((last - min(first, today)).days + 1)]
    return [Row(day, _date(day), cells.get(day, {}), day == today) for day in days]


def _joined(cell: Cell | None, hour: TimetableHour) -> Cell:
    if cell is None:
        return Cell(hour.at, hour.fires, hour.ran, hour.missed)
    return Cell(cell.at, cell.fires + hour.fires, cell.ran + hour.ran, cell.missed + hour.missed)


def picture(visit: Visit, rows: Sequence[Row], zone: tzinfo) -> Markup:
    """Draw the grid: a row for each day, a cell for each hour, darker where more fires."""
    totals = [cell.total for row in rows for cell in row.cells.values()]
    least, most = min(totals, default=0), max(totals, default=0)
    grid = []
    for row in rows:
        drawn = []
        for hour, cell in sorted(row.cells.items()):
            kind = "ahead" if cell.fires else "missed" if cell.missed else "past"
            drawn.append(
                drawing.HeatCell(
                    hour, series.level(cell.total - least, most - least), kind, _cell_title(row, hour, cell),
                    visit.url("/forecast", hour=iso(cell.at)) + "#hour",
                )
            )  # fmt: skip
        grid.append(drawn)
    now = visit.now.astimezone(zone)
    today = next((index for index, row in enumerate(rows) if row.is_today), None)
    name = _("Fires by day and hour, 7 days behind and 14 ahead; the table below has the numbers")
    return drawing.heat(grid, name=name, now=None if today is None else (today, now.hour + now.minute / 60))


def _cell_title(row: Row, hour: int, cell: Cell) -> str:
    at = f"{row.name} {hour:02d}:00"
    said = []
    if cell.fires:
        said.append(ngettext("one fire to come", "%(num)s fires to come", cell.fires))
    if cell.ran:
        said.append(ngettext("one ran", "%(num)s ran", cell.ran))
    if cell.missed:
        said.append(ngettext("one did not run", "%(num)s did not run", cell.missed))
    return _("%(at)s: %(said)s", at=at, said=listed(said))


def quiet_windows(found: Timetable, now: datetime) -> list[Quiet]:
    """Return the longest stretches of whole hours ahead in which as little fires as in no other hour."""
    counts = {each.at: each.fires for each in found.hours}
    start = min((at for at in counts if at > now), default=None)
    if start is None:
        return []
    whole = [start + index * HOUR for index in range(int((found.until - start) / HOUR))]
    if not whole:
        return []
    least = min(counts.get(at, 0) for at in whole)
    stretches = []
    for is_quiet, hours in groupby(whole, key=lambda at: counts.get(at, 0) == least):
        stretch = list(hours)
        if is_quiet and len(stretch) >= SHORTEST_QUIET:
            stretches.append(Quiet(stretch[0], len(stretch), least))
    return sorted(stretches, key=lambda each: (-each.hours, each.begin))[:QUIET]
