"""What the report on governance counts. Every statement goes along an index, and none reads more than its limit."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Subquery, Table, and_, case, func, select

from horae.core.governance.report import Counted, JobCounts, ReportSpan, StateCount
from horae.core.time.instants import instant, micros
from horae.stores.tables.audit import audit
from horae.stores.tables.governance import decisions, objects, reviews
from horae.stores.tables.jobs import jobs

# Verbs of entries that say something about a job and not what it made of its object.
ABOUT_JOBS = ("admitted", "dead", "ended", "failed", "lost", "planned", "put_back", "released", "renewed")
STARTED = ("planned", "renewed")  # say neither that a job was admitted nor that it ended
FAILED = ("dead", "failed", "lost")
SLACK = timedelta(hours=1)  # by which numbers and instants may be out of order
Spans = list[tuple[datetime, datetime]]


class Reports:
    """What a report counts inside one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def count(self, owner: str | None, spans: Spans, now: datetime, *, most: int, most_due: int) -> Counted:
        """Count objects, jobs, edges, decisions and reviews; without an owner those of all."""
        counting = _Counting(self.connection, owner, most=most)
        since, until = spans[0][0], spans[-1][1]
        entries = counting.entries(since, until)
        whole, by_span = counting.jobs(entries, spans)
        events, decided = counting.events(entries, spans), counting.decisions(since, spans)
        series = (ReportSpan(*each) for each in zip(*zip(*spans, strict=True), by_span, events, decided, strict=True))
        return Counted(
            tuple(counting.objects()), tuple(counting.late(now, most=most_due)), whole, tuple(series),
            counting.reviews(since, until), counting.is_complete,
        )  # fmt: skip


class _Counting:
    """The statements of one report."""

    def __init__(self, connection: Connection, owner: str | None, *, most: int) -> None:
        self.connection = connection
        self.owner = owner
        self.most = most
        self.is_complete = True

    def objects(self) -> list[StateCount]:
        """Count objects by kind and state."""
        some = select(objects.c.kind, objects.c.state).where(*self._mine(objects)).limit(self.most).subquery()
        query = select(some.c.kind, some.c.state, func.count()).group_by(some.c.kind, some.c.state)
        found = [
            StateCount(kind, state, int(count))
            for kind, state, count in sorted(map(tuple, self.connection.execute(query)))
        ]
        self._note(sum(each.count for each in found))
        return found

    def late(self, now: datetime, *, most: int) -> list[timedelta]:
        """Return how late the actions are that are due and wait for a worker, the latest first."""
        due = (objects.c.next_action_at <= micros(now), jobs.c.state == "queued", *self._mine(objects))
        query = select(objects.c.next_action_at).join_from(objects, jobs, jobs.c.id == objects.c.job_id).where(*due)
        rows = self.connection.execute(query.order_by(objects.c.next_action_at).limit(most)).scalars()
        return [now - instant(at) for at in rows]

    def entries(self, since: datetime, until: datetime) -> Subquery:
        """Return the entries about objects of a window, the latest where there are too many."""
        first = self._first(audit, audit.c.at, since)
        window = (audit.c.id >= first, audit.c.at >= micros(since), audit.c.at <= micros(until))
        query = select(audit.c.at, audit.c.verb, audit.c.event_kind, audit.c.object_type, audit.c.job)
        query = query.where(*window, audit.c.event_kind.is_not(None), *self._mine(audit))
        some = query.order_by(audit.c.id.desc()).limit(self.most).subquery()
        self._note(int(self.connection.execute(select(func.count()).select_from(some)).scalar_one()))
        return some

    def jobs(self, entries: Subquery, spans: Spans) -> tuple[JobCounts, list[JobCounts]]:
        """Count jobs by what became of them: over the whole window, and in each of its spans."""
        verb, job = entries.c.verb, entries.c.job

        def distinct(condition: ColumnElement[bool]) -> ColumnElement[int]:
            return func.count(case((condition, job)).distinct())

        known = and_(job.is_not(None), verb.is_not(None))
        counts = (
            distinct(and_(known, verb.not_in(STARTED))), distinct(and_(known, verb.not_in(ABOUT_JOBS))),
            distinct(verb.in_(FAILED)), distinct(verb == "dead"), distinct(verb == "put_back"),
        )  # fmt: skip
        whole = JobCounts(*(int(each) for each in self.connection.execute(select(*counts)).one()))
        span = _span(entries.c.at, spans).label("span")
        rows = self.connection.execute(select(span, *counts).group_by(span))
        found = {int(row[0]): JobCounts(*(int(each) for each in row[1:])) for row in rows}
        return whole, [found.get(index, JobCounts()) for index in range(len(spans))]

    def events(self, entries: Subquery, spans: Spans) -> list[dict[str, int]]:
        """Count edges by event, in each span."""
        span = _span(entries.c.at, spans).label("span")
        query = select(span, entries.c.verb, func.count()).where(entries.c.event_kind == "state_transition")
        return self._by_span(query.group_by(span, entries.c.verb), spans)

    def decisions(self, since: datetime, spans: Spans) -> list[dict[str, int]]:
        """Count decisions by outcome, in each span."""
        at = decisions.c.decided_at
        window = (decisions.c.id >= self._first(decisions, at, since), at >= micros(since), at <= micros(spans[-1][1]))
        query = select(at, decisions.c.outcome).where(*window, *self._mine(decisions))
        some = query.order_by(decisions.c.id.desc()).limit(self.most).subquery()
        span = _span(some.c.decided_at, spans).label("span")
        return self._by_span(select(span, some.c.outcome, func.count()).group_by(span, some.c.outcome), spans)

    def reviews(self, since: datetime, until: datetime) -> dict[str, int]:
        """Count reviews that were opened in a window by their answer."""
        at = reviews.c.opened_at
        window = (reviews.c.id >= self._first(reviews, at, since), at >= micros(since), at <= micros(until))
        query = select(reviews.c.answer).where(*window, *self._mine(reviews))
        some = query.order_by(reviews.c.id.desc()).limit(self.most).subquery()
        rows = self.connection.execute(select(some.c.answer, func.count()).group_by(some.c.answer))
        return {answer or "open": int(count) for answer, count in rows}

    # -- bounds ----------------------------------------------------------------------------------------------------

    def _mine(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return () if self.owner is None else (table.c.owner == self.owner,)

    def _note(self, count: int) -> None:
        self.is_complete = self.is_complete and count < self.most

    def _by_span(self, query: Any, spans: Spans) -> list[dict[str, int]]:
        found: list[dict[str, int]] = [{} for _ in spans]
        for index, name, count in self.connection.execute(query):
            found[int(index)][name] = int(count)
        return found

    def _first(self, table: Table, at: Any, since: datetime) -> int:
        """Return the number from which on rows of a window may lie, found by halving; they are numbered in time."""
        begin = micros(since - SLACK)
        newest = select(table.c.id).where(*self._mine(table)).order_by(table.c.id.desc()).limit(1)
        low, high = 0, int(self.connection.execute(newest).scalar() or 0) + 1
        while high - low > 1:
            middle = (low + high) // 2
            query = select(table.c.id, at).where(table.c.id >= middle, table.c.id < high, *self._mine(table))
            row = self.connection.execute(query.order_by(table.c.id).limit(1)).first()
            if row is None or row[1] >= begin:
                high = middle
            else:
                low = int(row[0])
        return low


def _span(at: Any, spans: Spans) -> ColumnElement[int]:
    """Return the index of the span in which an instant lies."""
    whens = [(at < micros(until), index) for index, (_, until) in enumerate(spans)]
    return case(*whens, else_=len(spans) - 1)
