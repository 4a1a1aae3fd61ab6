"""Storing new jobs on any connection: keys, unique names, and what they wait for. SQLAlchemy Core.

The keyed way round; jobs without names go through the stores' own hot statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, text, update

from horae.core.cluster.numbers import job_id, vshard_in
from horae.core.jobs.job import NewJob
from horae.core.time.instants import micros
from horae.errors import KeyConflict, NotFound
from horae.ports.jobs import Placed
from horae.stores.databases.bulk import by_column, find_by, insert_drawing, insert_free
from horae.stores.databases.dialects import BY_NAME
from horae.stores.databases.driver import CallerDriver
from horae.stores.jobs.asks import send
from horae.stores.jobs.needs import Needs
from horae.stores.tables.batches import parents
from horae.stores.tables.jobs import INSERT_COLUMNS, job_chunks, jobs, keys, needs, new_job_row, runs

if TYPE_CHECKING:
    from horae.stores.cluster.shard import Entrance

CHUNK = 500
Name = tuple[str, str, str]  # scope, owner, text


class Insertion:
    """New jobs in one transaction, ours or a caller's."""

    def __init__(self, connection: Connection, entrance: Entrance | None = None) -> None:
        self.connection = connection
        self._entrance = entrance

    def insert(self, asked: Sequence[NewJob], now: datetime) -> list[Placed]:
        """Store jobs; one whose key or unique name is known becomes the job that has it."""
        if any(job.gather is not None for job in asked):
            from horae.stores.jobs.gathered_jobs import Gathering

            return Gathering(self).insert(asked, now)
        if all(job.typed_key is None for job in asked):
            return self._insert(asked, now, self.find_holders(asked))
        try:
            placed = self._insert_typed(asked, now, self.find_holders(asked))
        except KeyConflict:  # an object of another type may have taken the default key meanwhile
            placed = self._insert_typed(asked, now, self.find_holders(asked, latest=True))
        return placed

    def _insert_typed(self, asked: Sequence[NewJob], now: datetime, known: dict[Name, tuple[int, str]]) -> list[Placed]:
        """Store jobs with default keys, each under its typed key where the default is not free for it.

        A key of the older, typed form still stands for its request, and two objects of different types that share an
        id are two jobs.
        """
        fresh: dict[Name, NewJob] = {}
        new = []
        for job in asked:
            renamed = replace(job, key=job.typed_key) if self._is_taken(job, known, fresh) else job
            fresh |= dict.fromkeys(_names(renamed), renamed)
            new.append(renamed)
        placed = self._insert(new, now, known)
        return [
            where if job.key == before.key else replace(where, key=job.key)
            for before, job, where in zip(asked, new, placed, strict=True)
        ]

    def _is_taken(self, job: NewJob, known: dict[Name, tuple[int, str]], fresh: dict[Name, NewJob]) -> bool:
        if job.typed_key is None:
            return False
        default, typed = ("key", job.owner, job.key or ""), ("key", job.owner, job.typed_key)
        if typed in known or typed in fresh:
            return True
        if default in known:
            number, request_hash = known[default]
            return request_hash != job.request_hash and self._type_of(number) not in (None, job.object_type)
        return default in fresh and fresh[default].object_type not in (None, job.object_type)

    def _type_of(self, number: int) -> str | None:
        live = self.connection.execute(select(jobs.c.object_type).where(jobs.c.id == number)).scalar()
        if live is not None:
            return str(live)
        final = select(runs.c.object_type).where(runs.c.job_id == number, runs.c.state.is_not(None))
        ended = self.connection.execute(final).scalar()
        return None if ended is None else str(ended)

    def _insert(self, new: Sequence[NewJob], now: datetime, known: dict[Name, tuple[int, str]]) -> list[Placed]:
        placed: list[Placed | None] = [None] * len(new)
        fresh: dict[Name, int] = {}
        twins: dict[int, int] = {}
        for index, job in enumerate(new):
            names = _names(job)
            there = next((known[name] for name in names if name in known), None)
            twin = next((name for name in names if name in fresh), None)
            if there is not None:
                placed[index] = deduplicate(job, *there)
            elif twin is not None:
                twins[index] = fresh[twin]
                deduplicate(job, 0, _stored_hash(twin, new[fresh[twin]]))  # refused before anything is stored
            else:
                fresh |= dict.fromkeys(names, index)
        waiting = [index for index in range(len(new)) if placed[index] is None and index not in twins]
        numbers = self.add([new[index] for index in waiting], now)
        for index, where in zip(
            waiting, self._register_names([new[index] for index in waiting], numbers, now), strict=True
        ):
            placed[index] = where
        self._wait_for_others([(new[index], placed[index]) for index in waiting if new[index].after], now)
        self._note_in_audit([(new[index], placed[index]) for index in waiting if new[index].entry is not None])
        self._expect([(new[index], placed[index]) for index in waiting if new[index].expect is not None], now)
        for index, twin_index in twins.items():
            original = placed[twin_index]
            assert original is not None
            placed[index] = Placed(original.number, deduplicated=True, request_hash=original.request_hash)
        return [where for where in placed if where is not None]

    def _note_in_audit(self, placed: Sequence[tuple[NewJob, Placed | None]]) -> None:
        """Append the entries of jobs that were really stored, each with the id that its job has got."""
        entries = [
            replace(job.entry, job=job_id(where.number))
            for job, where in placed
            if job.entry is not None and where is not None and not where.deduplicated
        ]
        if entries:
            from horae.stores.audit import Audit

            Audit(self.connection).append_many(entries)

    def _expect(self, placed: Sequence[tuple[NewJob, Placed | None]], now: datetime) -> None:
        """Write what is expected of new jobs, each with the job of Horae's own that looks after it."""
        fresh = [
            (job, job.expect, where.number)
            for job, where in placed
            if job.expect is not None and where is not None and not where.deduplicated
        ]
        if not fresh:
            return
        from horae.stores.schedules.expectations import Expectations  # few jobs have any

        checks = self.add([expect.check(job, number) for job, expect, number in fresh], now)
        rows = [expect.row(job, number, check, now) for (job, expect, number), check in zip(fresh, checks, strict=True)]
        Expectations(self.connection, self._entrance).add_many(rows)

    def _wait_for_others(self, waiting: Sequence[tuple[NewJob, Placed | None]], now: datetime) -> None:
        """Note which unfinished jobs a new one waits for; with none left it may run at once.

        The parents' rows are locked, so that one that ends just now either finds the child or is found to have ended.
        """
        for job, where in waiting:
            if where is None or where.deduplicated:
                continue
            named = [
                {"job_id": where.number, "parent_id": number, "position": position, "created_at": micros(now)}
                for position, number in enumerate(dict.fromkeys(job.after))
            ]
            self.connection.execute(insert(parents), named)
            near = self._near(where.number, job.after)
            query = select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(near)).order_by(jobs.c.id)
            there = {row.id: row.state for row in self.connection.execute(query.with_for_update())}
            lost = {number for number, state in there.items() if state == "dead"}
            gone = [number for number in near if number not in there]
            cancelled, unknown = self._find_cancelled(gone)
            lost |= cancelled
            asked = {number for number in job.after if number not in near}.union(unknown)
            states = dict.fromkeys(there, "open") | dict.fromkeys(lost, "failed") | dict.fromkeys(asked, "asked")
            rows = [
                {"job_id": where.number, "needed_id": number, "policy": job.on_parent_dead,
                 "state": states[number], "concurrency_limit": job.concurrency_limit}
                for number in sorted(states)
            ]  # fmt: skip
            if rows:
                self.connection.execute(insert(needs), rows)
                linked = jobs.c.linked.bitwise_or(1)
                self.connection.execute(update(jobs).where(jobs.c.id.in_(there)).values(linked=linked))
                self._ask(where.number, asked, now)
            else:
                free = update(jobs).where(jobs.c.id == where.number).values(held="", held_for=None)
                self.connection.execute(free)
            if lost:
                dialect = BY_NAME[self.connection.dialect.name]
                Needs(dialect).settle_new(CallerDriver(self.connection), where.number, now)

    def _near(self, child: int, after: Sequence[int]) -> list[int]:
        """Return the parents that are looked for here; those of another shard are asked by a message."""
        if self._entrance is None:
            return list(dict.fromkeys(after))
        return [number for number in dict.fromkeys(after) if vshard_in(number) in (None, vshard_in(child))]

    def _ask(self, child: int, asked: Iterable[int], now: datetime) -> None:
        for parent in sorted(asked):
            send(CallerDriver(self.connection), "ask", child, parent, 0, "0", now)

    def _find_cancelled(self, numbers: Sequence[int]) -> tuple[set[int], set[int]]:
        """Return those that were cancelled, among jobs that have ended, and those that may have ended elsewhere.

        What never was cannot be waited for. In a cluster a job may have ended where its shard was before.
        """
        cancelled, elsewhere = set[int](), set[int]()
        for number in numbers:
            final = select(runs.c.state).where(runs.c.job_id == number, runs.c.state.is_not(None))
            state = self.connection.execute(final).scalar()
            if state is None and self._entrance is None:
                raise NotFound("parent_unknown", id=job_id(number))
            if state is None:
                elsewhere.add(number)
            elif state != "succeeded":
                cancelled.add(number)
        return cancelled, elsewhere

    def find_holders(self, new: Sequence[NewJob], *, latest: bool = False) -> dict[Name, tuple[int, str]]:
        """Return the jobs that have these names; *latest*: also those committed since this transaction began."""
        wanted = sorted({name for job in new for name in (*_names(job), *_typed(job))})
        found: dict[Name, tuple[int, str]] = {}
        for scope, owner in sorted({name[:2] for name in wanted}):
            texts = [name[2] for name in wanted if name[:2] == (scope, owner)]
            query = select(keys.c.name, keys.c.job_id, keys.c.request_hash)
            query = query.where(keys.c.scope == scope, keys.c.owner == owner)
            query = query.with_for_update(read=True) if latest else query
            for name, number, request_hash in find_by(self.connection, query, keys.c.name, texts, each=True):
                found[scope, owner, name] = (number, request_hash)
        return found

    def add(self, new: Sequence[NewJob], now: datetime) -> list[int]:
        if self._entrance is not None:
            return self._entrance.add(CallerDriver(self.connection), new, now)
        numbers: list[int] = []
        for chunk in job_chunks(new, 1000):
            numbers += self._add_rows([new_job_row(job, now) for job in chunk])
        return numbers

    def _add_rows(self, values: list[list[Any]]) -> list[int]:
        drawn = insert_drawing(self.connection, jobs, INSERT_COLUMNS, values, jobs.c.id)
        if drawn is not None:
            return drawn
        rows = by_column(INSERT_COLUMNS, values)
        last = BY_NAME[self.connection.dialect.name].last_number
        if last:  # the only writer draws consecutive numbers
            self.connection.execute(insert(jobs), rows)
            number = int(self.connection.execute(text(last)).scalar_one())
            return list(range(number - len(rows) + 1, number + 1))
        if self.connection.dialect.insert_executemany_returning_sort_by_parameter_order:
            statement = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)
            return [row[0] for row in self.connection.execute(statement, rows)]
        answers = [self.connection.execute(insert(jobs).values(row)) for row in rows]
        return [answer.inserted_primary_key[0] for answer in answers]  # type: ignore[index]  # one insert always has a key

    def _register_names(self, new: Sequence[NewJob], numbers: Sequence[int], now: datetime) -> list[Placed]:
        """Take the names of new jobs; a job that lost the race for its name becomes a duplicate of the winner."""
        rows = [
            {"scope": name[0], "owner": name[1], "name": name[2], "job_id": number,
             "request_hash": _stored_hash(name, job), "created_at": micros(now)}
            for job, number in zip(new, numbers, strict=True) for name in _names(job)
        ]  # fmt: skip
        placed = [Placed(number, request_hash=job.request_hash) for job, number in zip(new, numbers, strict=True)]
        if not rows or self.take_names(sorted(rows, key=_by_name)) == len(rows):
            return placed
        known = self.find_holders(new, latest=True)
        winners = [
            next((known[name] for name in _names(job) if known[name][0] != number), None)
            for job, number in zip(new, numbers, strict=True)
        ]
        try:
            final = [
                where if winner is None else deduplicate(job, *winner)
                for job, where, winner in zip(new, placed, winners, strict=True)
            ]
        except KeyConflict:
            self._withdraw(numbers)
            raise
        self._withdraw([number for number, winner in zip(numbers, winners, strict=True) if winner is not None])
        return final

    def _withdraw(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            self.connection.execute(delete(jobs).where(jobs.c.id.in_(chunk)))
            self.connection.execute(delete(keys).where(keys.c.job_id.in_(chunk)))

    def take_names(self, rows: Sequence[dict[str, Any]]) -> int:
        """Insert the names that are free; how many that were."""
        return insert_free(self.connection, keys, rows)


def _by_name(row: dict[str, Any]) -> Name:
    return row["scope"], row["owner"], row["name"]


def _stored_hash(name: Name, job: NewJob) -> str:
    """Return the request's hash for a key; none for a unique name, which does not compare requests."""
    return job.request_hash if name[0] == "key" else ""


def _names(job: NewJob) -> list[Name]:
    names = (("key", job.key), ("unique", None if job.gather is not None else job.unique))
    return [(scope, job.owner, name) for scope, name in names if name is not None]


def _typed(job: NewJob) -> list[Name]:
    return [] if job.typed_key is None else [("key", job.owner, job.typed_key)]


def deduplicate(job: NewJob, number: int, request_hash: str) -> Placed:
    if job.key is not None and request_hash and request_hash != job.request_hash:
        raise KeyConflict(job.key, job_id(number) if number else "another job of the same call")
    return Placed(number, deduplicated=True, request_hash=request_hash)
