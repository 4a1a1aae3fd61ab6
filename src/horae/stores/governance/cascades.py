"""What rests on an object, page by page: experiences, then cognitions, then the decisions that cite any of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Select, func, or_, select

from horae.stores.tables.governance import cites, decisions, links, objects


class Cascades:
    """The pages of one transaction; each is in the order of numbers and begins after one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def experiences(self, root: int, *, after: int, limit: int) -> list[int]:
        """Return the numbers of experiences that rest on an object."""
        return self._page(_of_kind("experience", _above(root)), objects.c.id, after, limit)

    def cognitions(self, root: int, *, after: int, limit: int) -> list[int]:
        """Return the numbers of cognitions that rest on an object, directly or through an experience."""
        return self._page(_of_kind("cognition", _all_above(root)), objects.c.id, after, limit)

    def decisions(self, root: int, *, after: int, limit: int) -> list[int]:
        """Return the numbers of decisions that cite an object or what rests on it; those that abstained left out."""
        return self._page(_decisions(root), decisions.c.id, after, limit)

    def count(self, root: int) -> int:
        """Count all of them."""
        queries = (
            _of_kind("experience", _above(root)),
            _of_kind("cognition", _all_above(root)),
            _decisions(root),
        )
        counts = (select(func.count()).select_from(each.subquery()) for each in queries)
        return sum(int(self.connection.execute(each).scalar_one()) for each in counts)

    def _page(self, query: Select[Any], number: Column[int], after: int, limit: int) -> list[int]:
        rows = self.connection.execute(query.where(number > after).order_by(number).limit(limit))
        return [row[0] for row in rows]


def _above(root: int) -> Select[Any]:
    return select(links.c.object_number).where(links.c.rests_on == root)


def _all_above(root: int) -> Select[Any]:
    return select(links.c.object_number).where(or_(links.c.rests_on == root, links.c.rests_on.in_(_above(root))))


def _of_kind(kind: str, numbers: Select[Any]) -> Select[Any]:
    return select(objects.c.id).where(objects.c.id.in_(numbers), objects.c.kind == kind)


def _decisions(root: int) -> Select[Any]:
    cited = or_(cites.c.object_number == root, cites.c.object_number.in_(_all_above(root)))
    counted = or_(decisions.c.outcome != "abstained", decisions.c.rolled_back_at.is_not(None))
    return select(decisions.c.id).where(decisions.c.id.in_(select(cites.c.decision_number).where(cited)), counted)
