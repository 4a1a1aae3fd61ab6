"""Saved views: rows to values and back."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from horae.core.views import View
from horae.errors import Conflict
from horae.stores.cluster.numbered import NumberedRows
from horae.stores.tables.views import VIEWS, views


class Views(NumberedRows):
    """The views inside one transaction."""

    def get(self, number: int, *, lock: bool = False) -> View | None:
        query = select(*VIEWS.select).where(views.c.id == number)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else VIEWS.read(row)

    def named(self, owner: str, author: str, room: str, name: str) -> View | None:
        same = VIEWS.equal({"owner": owner, "author": author, "room": room, "name": name})
        row = self.connection.execute(select(*VIEWS.select).where(*same).with_for_update()).first()
        return None if row is None else VIEWS.read(row)

    def find(self, owner: str, author: str, room: str | None, *, limit: int) -> list[View]:
        """Return the views of a person and those shared in its tenant, by name."""
        query = select(*VIEWS.select).where(*VIEWS.equal({"owner": owner, "room": room}))
        query = query.where(or_(views.c.author == author, views.c.shared == 1))
        query = query.order_by(views.c.room, views.c.name, views.c.id).limit(limit)
        return [VIEWS.read(row) for row in self.connection.execute(query)]

    def count(self, owner: str, author: str) -> int:
        query = select(func.count()).where(views.c.owner == owner, views.c.author == author)
        return int(self.connection.execute(query).scalar_one())

    def add(self, view: View) -> int:
        try:
            made = self.connection.execute(insert(views), self.with_number(VIEWS.row(view), view.owner))
        except IntegrityError as problem:
            raise Conflict("view_just_made", name=view.name) from problem
        return int(made.inserted_primary_key[0]) if made.inserted_primary_key else 0

    def put(self, view: View) -> None:
        self.connection.execute(update(views).where(views.c.id == view.number).values(VIEWS.changes(view)))

    def remove(self, number: int) -> None:
        self.connection.execute(delete(views).where(views.c.id == number))
