"""The fires to come: one by one as far as they can be listed, and by the hour beyond that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from horae.api.operation import Sender
from horae.api.rooms import Rooms
from horae.api.schedules.timetable import TimetableHour
from horae.api.schedules.values import Forecast, Schedule, UpcomingFire
from horae.console import series
from horae.core.dataclass import dataclass

MOST_FIRES = 1000  # listed one by one
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Ahead:
    """What fires until an instant; *hours* are counted only where there is too much to list."""

    forecast: Forecast
    until: datetime
    hours: tuple[TimetableHour, ...] = ()

    @property
    def fires(self) -> tuple[UpcomingFire, ...]:
        """Those that are listed, the next one first."""
        return self.forecast.fires

    @property
    def total(self) -> int:
        """All of them, listed or not."""
        return self.forecast.total + self._beyond(self.forecast.until, self.until)

    @property
    def listed_until(self) -> datetime:
        """How far the list reaches."""
        return self.fires[-1].at if self.forecast.total > len(self.fires) else self.forecast.until

    def counts(self, since: datetime, width: timedelta) -> Sequence[int]:
        """Return how many fire in each bar of a picture that begins *since*; what is overdue fires at once."""
        begin = self.forecast.since
        listed = series.collect(since, self.until, width, self.fires, lambda each: max(each.at, begin))
        spans = series.bins(since, self.until, width)
        return [
            len(each) + self._beyond(max(start, self.listed_until), end)
            for each, (start, end) in zip(listed, spans, strict=True)
        ]

    def _beyond(self, start: datetime, end: datetime) -> int:
        """Count what is not listed, as if it were spread evenly over each hour."""
        spans = ((each.fires, min(end, each.at + HOUR) - max(start, each.at)) for each in self.hours)
        return round(sum(fires * (span / HOUR) for fires, span in spans if span > timedelta(0)))


def name_of(fire: UpcomingFire, schedules: Iterable[Schedule]) -> str:
    """Return the title of the schedule that fires, where it is known and has one, else its key."""
    known = (each.title for each in schedules if (each.owner, each.key) == (fire.owner, fire.key))
    return next(known, None) or fire.key


def look_ahead(rooms: Rooms[Sender], now: datetime, reach: timedelta) -> Ahead:
    """Return the fires of the time to come, at most a day."""
    found = rooms.schedules.forecast(hours=reach / HOUR, limit=MOST_FIRES)
    is_all = found.complete and found.total == len(found.fires)
    hours = () if is_all else rooms.schedules.timetable(days=1, past=0).hours
    return Ahead(found, now + reach, hours)
