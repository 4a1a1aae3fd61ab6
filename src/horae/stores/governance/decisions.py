"""Decisions and what they cite, reviews and rollbacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Column, bindparam, func, insert, select, update

from horae.core.governance.decisions import Cite, Decision
from horae.core.governance.reviews import Review
from horae.core.governance.rollbacks import Rollback
from horae.core.time.instants import micros
from horae.errors import Conflict
from horae.stores.cluster.numbered import NumberedRows
from horae.stores.tables.governance import (
    CITES,
    DECISIONS,
    REVIEWS,
    ROLLBACKS,
    cites,
    decisions,
    reviews,
    rollbacks,
)

AT_ONCE = 500
CHANGE_DECISION = update(decisions).where(decisions.c.id == bindparam("which"))
CHANGE_REVIEW = update(reviews).where(reviews.c.id == bindparam("which"), reviews.c.state == "open")
CHANGE_ROLLBACK = update(rollbacks).where(rollbacks.c.id == bindparam("which"))


class Decisions(NumberedRows):
    def add(self, decision: Decision, cited: Iterable[Cite] = ()) -> Decision:
        """Store a decision and what it cites; return it with its number."""
        done = self.connection.execute(insert(decisions), self.with_number(DECISIONS.row(decision), decision.owner))
        assert done.inserted_primary_key is not None
        kept = replace(decision, number=int(done.inserted_primary_key[0]))
        rows = [CITES.row(replace(each, decision=kept.number)) for each in cited]
        if rows:
            self.connection.execute(insert(cites), rows)
        return kept

    def get(self, owner: str, id: str, *, lock: bool = False) -> Decision | None:  # noqa: A002  # the public name of the field
        query = select(*DECISIONS.select).where(decisions.c.owner == owner, decisions.c.decision_id == id)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else DECISIONS.read(row)

    def find(
        self,
        *,
        owner: str | None,
        agent: str | None = None,
        outcome: str | None = None,
        risk: str | None = None,
        limit: int,
        before: int | None = None,
    ) -> list[Decision]:
        """Return a page of decisions, newest first."""
        wanted = {"owner": owner, "agent": agent, "outcome": outcome, "risk": risk}
        query = select(*DECISIONS.select).where(*DECISIONS.equal(wanted))
        query = query if before is None else query.where(decisions.c.id < before)
        rows = self.connection.execute(query.order_by(decisions.c.id.desc()).limit(limit))
        return [DECISIONS.read(row) for row in rows]

    def save(self, decision: Decision) -> None:
        """Write what may change about a decision; its outcome is not part of that."""
        self.connection.execute(CHANGE_DECISION, {**DECISIONS.changes(decision), "which": decision.number})

    def cites(self, numbers: Iterable[int]) -> list[Cite]:
        """Return what these decisions cite."""
        return self._cites(cites.c.decision_number, numbers)

    def citing_one(self, number: int, *, limit: int) -> list[Decision]:
        """Return the newest decisions that cite an object."""
        query = select(*DECISIONS.select).join_from(cites, decisions, decisions.c.id == cites.c.decision_number)
        newest = query.where(cites.c.object_number == number).order_by(decisions.c.id.desc()).limit(limit)
        return [DECISIONS.read(row) for row in self.connection.execute(newest)]

    def citing(self, objects: Iterable[int]) -> list[Cite]:
        """Return by which decisions these objects are cited."""
        return self._cites(cites.c.object_number, objects)

    def by_number(self, numbers: Iterable[int], *, lock: bool = False) -> list[Decision]:
        found: list[Decision] = []
        for some in _chunks(numbers):
            query = select(*DECISIONS.select).where(decisions.c.id.in_(some)).order_by(decisions.c.id)
            rows = self.connection.execute(query.with_for_update() if lock else query)
            found += [DECISIONS.read(row) for row in rows]
        return found

    def _cites(self, column: Column[int], numbers: Iterable[int]) -> list[Cite]:
        found: list[Cite] = []
        for some in _chunks(numbers):
            query = select(*CITES.select).where(column.in_(some))
            rows = self.connection.execute(query.order_by(cites.c.decision_number, cites.c.object_number))
            found += [CITES.read(row) for row in rows]
        return found


class Reviews(NumberedRows):
    def add(self, review: Review) -> Review:
        done = self.connection.execute(insert(reviews), self.with_number(REVIEWS.row(review), review.owner))
        assert done.inserted_primary_key is not None
        return replace(review, number=int(done.inserted_primary_key[0]))

    def get(self, owner: str, id: str, *, lock: bool = False) -> Review | None:  # noqa: A002  # the public name of the field
        query = select(*REVIEWS.select).where(reviews.c.owner == owner, reviews.c.review_id == id)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else REVIEWS.read(row)

    def find(
        self, *, owner: str | None, states: Collection[str] = (), limit: int, before: int | None = None
    ) -> list[Review]:
        """Return a page of reviews, newest first."""
        query = select(*REVIEWS.select).where(*REVIEWS.equal({"owner": owner}))
        query = query.where(reviews.c.state.in_(sorted(states))) if states else query
        query = query if before is None else query.where(reviews.c.id < before)
        rows = self.connection.execute(query.order_by(reviews.c.id.desc()).limit(limit))
        return [REVIEWS.read(row) for row in rows]

    def count_open(self, *, owner: str | None, most: int) -> int:
        """Count reviews that wait for a person's answer, no further than *most*."""
        some = select(reviews.c.id).where(reviews.c.state == "open", *REVIEWS.equal({"owner": owner})).limit(most)
        return int(self.connection.execute(select(func.count()).select_from(some.subquery())).scalar() or 0)

    def of(self, objects: Iterable[int], *, only_open: bool = True) -> list[Review]:
        """Return the reviews about these objects."""
        found: list[Review] = []
        for some in _chunks(objects):
            query = select(*REVIEWS.select).where(reviews.c.object_number.in_(some))
            query = query.where(reviews.c.state == "open") if only_open else query
            found += [REVIEWS.read(row) for row in self.connection.execute(query.order_by(reviews.c.id))]
        return found

    def overdue(self, now: datetime, *, limit: int) -> list[Review]:
        """Return open reviews whose deadline has passed."""
        late = (reviews.c.state == "open", reviews.c.deadline <= micros(now))
        rows = self.connection.execute(select(*REVIEWS.select).where(*late).order_by(reviews.c.id).limit(limit))
        return [REVIEWS.read(row) for row in rows]

    def save(self, review: Review) -> None:
        """Write an open review; a closed one never changes."""
        done = self.connection.execute(CHANGE_REVIEW, {**REVIEWS.changes(review), "which": review.number})
        if done.rowcount != 1:
            raise Conflict("review_closed", id=review.id)


class Rollbacks(NumberedRows):
    def add(self, rollback: Rollback) -> Rollback:
        done = self.connection.execute(insert(rollbacks), self.with_number(ROLLBACKS.row(rollback), rollback.owner))
        assert done.inserted_primary_key is not None
        return replace(rollback, number=int(done.inserted_primary_key[0]))

    def get(self, owner: str, id: str, *, lock: bool = False) -> Rollback | None:  # noqa: A002  # the public name of the field
        query = select(*ROLLBACKS.select).where(rollbacks.c.owner == owner, rollbacks.c.rollback_id == id)
        row = self.connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else ROLLBACKS.read(row)

    def is_open(self, owner: str, agent: str) -> bool:
        """Return whether a rollback of this agent, or of all agents of the owner, is not finished."""
        query = select(rollbacks.c.id).where(rollbacks.c.owner == owner, rollbacks.c.state == "open").limit(1)
        query = query if agent == "*" else query.where(rollbacks.c.agent.in_((agent, "*")))
        return self.connection.execute(query).first() is not None

    def find(
        self, *, owner: str | None, states: Collection[str] = (), limit: int, before: int | None = None
    ) -> list[Rollback]:
        query = select(*ROLLBACKS.select).where(*ROLLBACKS.equal({"owner": owner}))
        query = query.where(rollbacks.c.state.in_(sorted(states))) if states else query
        query = query if before is None else query.where(rollbacks.c.id < before)
        rows = self.connection.execute(query.order_by(rollbacks.c.id.desc()).limit(limit))
        return [ROLLBACKS.read(row) for row in rows]

    def save(self, rollback: Rollback) -> None:
        self.connection.execute(CHANGE_ROLLBACK, {**ROLLBACKS.changes(rollback), "which": rollback.number})


def _chunks(numbers: Iterable[int]) -> Iterable[Sequence[int]]:
    known = sorted(set(numbers))
    return [known[start : start + AT_ONCE] for start in range(0, len(known), AT_ONCE)]
