"""Calendars: named lists of days."""

from __future__ import annotations

from horae.core.schedules.day_lists import Calendar
from horae.stores.codecs import COUNT, INSTANT, NAME, WORDS, text
from horae.stores.declaration import Declaration, Field, Mark

CALENDARS = Declaration(
    "horae_calendars",
    Calendar,
    Field("name", text(100), Mark.FIXED, primary_key=True),
    Field("days", WORDS, required=True),
    Field("title", NAME),
    Field("version", COUNT, required=True),
    Field("updated_at", INSTANT, required=True),
)
calendars = CALENDARS.table
