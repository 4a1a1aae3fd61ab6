"""Calendars: rows to values and back."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from horae.core.schedules.day_lists import Calendar
from horae.errors import Conflict
from horae.stores.tables.calendars import CALENDARS, calendars


class Calendars:
    """The calendars inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, name: str, *, lock: bool = False) -> Calendar | None:
        query = select(*CALENDARS.select).where(calendars.c.name == name)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else CALENDARS.read(row)

    def all(self) -> list[Calendar]:
        query = select(*CALENDARS.select).order_by(calendars.c.name)
        return [CALENDARS.read(row) for row in self.connection.execute(query)]

    def add(self, calendar: Calendar) -> None:
        try:
            self.connection.execute(insert(calendars), CALENDARS.row(calendar))
        except IntegrityError as problem:
            raise Conflict("calendar_just_made", name=calendar.name) from problem

    def put(self, calendar: Calendar) -> None:
        same = calendars.c.name == calendar.name
        self.connection.execute(update(calendars).where(same).values(CALENDARS.changes(calendar)))

    def remove(self, name: str) -> None:
        self.connection.execute(delete(calendars).where(calendars.c.name == name))
