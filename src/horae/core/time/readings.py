"""From what a wall clock shows to the instant that is meant."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from horae.core.time.instants import aware, iso
from horae.core.time.zones import span_at, zone_named
from horae.errors import InvalidInput


def instant_from(text: str, zone: str | None, name: str = "The time") -> datetime:
    """An ISO-8601 time as an instant. One without an offset is read in the zone; without one of either it is refused.

    A time that the zone's clocks skip is refused. One that they show twice is the first of the two, as with schedules.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("instant_unreadable", name=name, text=text) from None
    if moment.tzinfo is not None:
        return aware(moment, name)
    if zone is None:
        raise InvalidInput("reading_zone_missing", name=name, text=text, without_zone=moment.isoformat())
    return _instant_in(moment, zone, name)


def _instant_in(reading: datetime, zone: str, name: str) -> datetime:
    tzinfo = zone_named(zone)
    first = aware(reading.replace(tzinfo=tzinfo, fold=0), name)
    if first.astimezone(tzinfo).replace(tzinfo=None) != reading:
        # With fold=0 a missing reading is taken with the offset before the gap, so it lies just after it.
        begins = span_at(tzinfo, first).start
        raise InvalidInput(
            "reading_skipped",
            name=name,
            reading=reading.isoformat(),
            zone=zone,
            next_local=local(begins, zone).isoformat(),
            next=iso(begins),
        )
    return first


def second_of(text: str, zone: str) -> datetime | None:
    """Return the later instant of a time that a zone's clocks show twice; None for others and with an offset."""
    reading = datetime.fromisoformat(text)
    if reading.tzinfo is not None:
        return None
    first, second = (aware(reading.replace(tzinfo=zone_named(zone), fold=fold), "The time") for fold in (0, 1))
    return second if second > first else None


def local(moment: datetime, zone: str) -> datetime:
    """Return the instant as clocks of a zone show it, with its offset."""
    local_time = moment.astimezone(zone_named(zone))
    return local_time.replace(tzinfo=timezone(local_time.utcoffset() or timedelta(0)))
