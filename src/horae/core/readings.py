"""From what a wall clock shows to the instant that is meant."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from horae.core.instants import aware, iso
from horae.core.zones import span_at, zone_named
from horae.errors import InvalidInput


def instant_from(text: str, zone: str | None, name: str = "The time") -> datetime:
    """An ISO-8601 time as an instant. One without an offset is read in the zone; without one of either it is refused.

    A time that the zone's clocks skip is refused. One that they show twice is the first of the two, as with schedules.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{name} {text!r} is not an ISO-8601 time; write for example 2030-01-07T06:00:00Z."
        ) from None
    if moment.tzinfo is not None:
        return aware(moment, name)
    if zone is None:
        raise InvalidInput(
            f"{name} {text!r} says nothing about its zone; write {moment.isoformat()}Z for UTC, an offset such as "
            f"{moment.isoformat()}+08:00, or name the zone that it is meant in."
        )
    return _instant_in(moment, zone, name)


def _instant_in(reading: datetime, zone: str, name: str) -> datetime:
    place = zone_named(zone)
    first = aware(reading.replace(tzinfo=place, fold=0), name)
    if first.astimezone(place).replace(tzinfo=None) != reading:
        # With fold=0 a missing reading is taken with the offset before the gap, so it lies just after it.
        begins = span_at(place, first).start
        raise InvalidInput(
            f"{name} {reading.isoformat()} does not exist in {zone}: its clocks jump over it. The first moment after "
            f"is {local(begins, zone).isoformat()} ({iso(begins)})."
        )
    return first


def second_of(text: str, zone: str) -> datetime | None:
    """The later instant of a time that the zone's clocks show twice; None for any other, and for one with an offset."""
    reading = datetime.fromisoformat(text)
    if reading.tzinfo is not None:
        return None
    first, second = (aware(reading.replace(tzinfo=zone_named(zone), fold=fold), "The time") for fold in (0, 1))
    return second if second > first else None


def local(moment: datetime, zone: str) -> datetime:
    """The instant as clocks of a zone show it, with its offset."""
    shown = moment.astimezone(zone_named(zone))
    return shown.replace(tzinfo=timezone(shown.utcoffset() or timedelta(0)))
