"""Instants: aware UTC inside, integer microseconds in storage, ISO-8601 with Z on the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from horae.errors import InvalidInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def aware(instant: datetime, name: str = "instant") -> datetime:
    """The instant in UTC; a naive one is refused, because nobody can know what it means."""
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise InvalidInput(
            f"{name} {instant.isoformat()} has no time zone. Give an aware datetime, "
            "for example datetime(2030, 1, 7, 6, tzinfo=UTC)."
        )
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{name} {instant.isoformat()} lies outside the calendar when told in UTC.") from None


def later(moment: datetime, by: timedelta) -> datetime:
    """So much later; the end of the calendar where the sum lies beyond it."""
    try:
        return moment + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def earlier(moment: datetime, by: timedelta) -> datetime:
    """So much earlier; the beginning of the calendar where the difference lies before it."""
    try:
        return moment - by
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def micros(instant: datetime) -> int:
    """Whole microseconds since 1970, exactly."""
    return (instant - EPOCH) // MICROSECOND


def instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def iso(moment: datetime) -> str:
    """``2030-01-07T06:00:00Z``; microseconds only where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def from_iso(text: str) -> datetime:
    """Read an ISO-8601 instant; it must carry a zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not an ISO-8601 instant; write for example 2030-01-07T06:00:00Z.") from None
    if moment.tzinfo is None:
        told = moment.isoformat()
        raise InvalidInput(f"{text!r} has no time zone; write {told}Z for UTC, or an offset such as {told}+08:00.")
    return aware(moment)
