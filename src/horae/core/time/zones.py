"""Zones as a line of spans: stretches of time during which a zone keeps one offset from UTC.

Inside a span, wall clock and UTC differ by a constant, so every question about gaps and folds becomes a
question about where one span ends and the next begins. A *reading* is what a wall clock shows. It is written
as a datetime labelled UTC, so that arithmetic on it never consults a zone.

Nothing here asks for the time. Zone rules come from :class:`zoneinfo.ZoneInfo`; an unknown zone is an error.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from horae.core.dataclass import dataclass
from horae.errors import UnknownZone

NO_ZONES = {"localtime", "Factory"}  # the first differs from host to host, the second means that none is set
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)

# Two offset changes of one zone are never closer than 6.9 days in the zone database, so that a look every
# three days cannot miss a pair; tests/core/test_cron_zones.py compares the result with the compiled zone files.
_STRIDE = timedelta(days=3)
# Readings reach at most a day into either neighbour of a change, so what happened before this no longer matters.
_MEMORY = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time with one offset, cut at year ends.

    ``start`` and ``end`` are instants, ``opens`` and ``closes`` the readings at them (end and closes are outside).
    ``fresh`` is the first reading no earlier span has shown: equal to ``opens`` in quiet times, later than it
    after a fold (readings before it are repetitions), earlier after a gap (readings from it to ``opens`` are missing).
    """

    start: datetime
    end: datetime
    offset: timedelta
    opens: datetime
    closes: datetime
    fresh: datetime


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """Return the zone with this IANA name. An unknown one is refused: a silent UTC would move jobs by hours.

    Only names of the list count. The folder of the zone files holds more that could be opened: other editions of every
    zone (``posix/``, ``right/``), and files that mean something else on every host.
    """
    if not isinstance(name, str) or (name != "UTC" and name not in _names()):
        raise UnknownZone(str(name))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # on the list, and its file cannot be read
        raise UnknownZone(name) from None


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - NO_ZONES


def span_at(zone: ZoneInfo, instant: datetime) -> Span:
    """Return the span an instant (in UTC) lies in."""
    spans = spans_of(zone, instant.year)
    for span in spans:
        if instant < span.end:
            return span
    return spans[-1]


@lru_cache(maxsize=8192)
def spans_of(zone: ZoneInfo, year: int) -> tuple[Span, ...]:
    """Return the spans of one UTC year, in order and without holes between them."""
    begins = datetime(year, 1, 1, tzinfo=UTC)
    ends = datetime(year + 1, 1, 1, tzinfo=UTC) if year < LATEST.year else LATEST
    last_reading = EARLIEST
    spans = []
    for start, end in pairwise([*_changes(zone, shift(begins, -_MEMORY), ends), ends]):
        offset = _offset_at(zone, start)
        closes = shift(end, offset)
        if end > begins:
            cut = start < begins or start == EARLIEST
            start = max(start, begins)
            opens = shift(start, offset)
            spans.append(Span(start, end, offset, opens, closes, max(last_reading, opens) if cut else last_reading))
        last_reading = max(last_reading, closes)
    return tuple(spans)


def _changes(zone: ZoneInfo, begins: datetime, ends: datetime) -> list[datetime]:
    """Return where the offset changes between two instants, after *begins* itself."""
    changes = [begins]
    seen, offset = begins, _offset_at(zone, begins)
    while seen < ends:
        ahead = min(shift(seen, _STRIDE), ends)
        later = _offset_at(zone, ahead)
        if later != offset:
            change = _bisect(zone, seen, ahead)
            if change < ends:
                changes.append(change)
        seen, offset = ahead, later
    return changes


def _bisect(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the first instant with the later offset; changes happen on whole seconds."""
    offset = _offset_at(zone, before)
    low, high = 0, (after - before) // SECOND + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(zone, before + middle * SECOND) == offset:
            low = middle
        else:
            high = middle
    return before + high * SECOND


def _offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    try:
        return instant.astimezone(zone).utcoffset() or timedelta(0)
    except OverflowError:  # the last hours of year 9999, or the first of year 1, belong to another year there
        inside = timedelta(days=2) if instant < datetime(2, 1, 1, tzinfo=UTC) else timedelta(days=-2)
        return (instant + inside).astimezone(zone).utcoffset() or timedelta(0)


def shift(instant: datetime, by: timedelta) -> datetime:
    """Add a span to an instant, stopping at the ends of the calendar."""
    try:
        return instant + by
    except OverflowError:
        return EARLIEST if by < timedelta(0) else LATEST
