"""Instants: aware UTC inside, integer microseconds in storage, ISO-8601 with Z on the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from horae.errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def aware(instant: datetime, name: str = "instant") -> datetime:
    """Return the instant in UTC; refuse a naive one, because its zone is unknown."""
    if not isinstance(instant, datetime):
        raise InvalidInput("type_wrong", name=name, value=repr(instant), expected="an aware datetime")
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise InvalidInput("zone_missing", name=name, value=instant.isoformat())
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("outside_calendar", name=name, value=instant.isoformat()) from None


def later(moment: datetime, by: timedelta) -> datetime:
    """Return an instant so much later, at most the end of the calendar."""
    try:
        return moment + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def earlier(moment: datetime, by: timedelta) -> datetime:
    """Return an instant so much earlier, at least the beginning of the calendar."""
    try:
        return moment - by
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def micros(instant: datetime) -> int:
    """Return whole microseconds since 1970, exactly."""
    return (instant - EPOCH) // MICROSECOND


def instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def iso(moment: datetime) -> str:
    """Write ``2030-01-07T06:00:00Z``; microseconds only where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def from_iso(text: str) -> datetime:
    """Read an ISO-8601 instant; it must carry a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("instant_unreadable", name="time", text=text) from None
    if moment.tzinfo is None:
        raise InvalidInput("offset_missing", text=text, without_zone=moment.isoformat())
    return aware(moment)
