"""Which rows of a database belong to the virtual shards that leave it, and what forbids that they leave."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, and_, func, select

from horae.core.cluster.numbers import FIRST_NUMBER, VSHARDS
from horae.core.jobs.job import SYSTEM
from horae.core.schedules.expectations import OF_JOB
from horae.errors import NotAllowed
from horae.stores.cluster.classes import CLASSES, Moves
from horae.stores.metadata import metadata
from horae.stores.tables.acts import acts
from horae.stores.tables.adapters import checkpoints
from horae.stores.tables.attention import lanes, tasks
from horae.stores.tables.batches import batch_jobs, batches
from horae.stores.tables.budgets import budget_periods, budgets, reservations
from horae.stores.tables.expectations import EXPECTATIONS
from horae.stores.tables.jobs import jobs, keys, needs
from horae.stores.tables.messages import answers, messages
from horae.stores.tables.queues import slots
from horae.stores.tables.schedules import follows, schedules

if TYPE_CHECKING:
    from horae.core.cluster.moves import Cargo

IN = 400  # values of one condition
OVER = ("done", "cancelled")  # states of acts
expectations = EXPECTATIONS.table
OF_JOBS = ("ask", "answer")  # messages whose sender is a job
KEY_SLOTS = "key:%"
objects = metadata.tables["horae_objects"]  # which only its own store writes


class CargoRows:
    """The rows of some virtual shards, found inside one transaction."""

    def __init__(self, connection: Connection, cargo: Cargo, *, is_strict: bool = True) -> None:
        self.connection = connection
        self.cargo = cargo
        self.is_strict = is_strict  # otherwise what cannot be told is left where it is
        self.forwards: dict[int, int] = {}  # jobs from before the cluster that go, with their virtual shards

    def conditions(self, table: Table) -> Iterator[ColumnElement[bool]]:
        """Yield conditions that together find the rows of a table that go, each of bounded size."""
        kind = CLASSES[table.name]
        if not isinstance(kind, Moves):
            return
        if kind.by == "key":
            yield from self._key_conditions()
        elif kind.by == "message":
            yield from self._message_conditions()
        elif kind.by == "number":
            yield from self._by_number(table.c[kind.column])
        elif kind.by == "name":
            yield from (_in(table.c[kind.column], some) for some in _few(self._names(table.c[kind.column])))
        elif kind.by == "expectation":
            yield from self._expectation_conditions()
        elif kind.by == "task":
            own = (select(tasks.c.id).where(_in(tasks.c.lane_id, some)) for some in _few(self.lanes))
            yield from (table.c[kind.column].in_(each) for each in own)
        else:
            found: dict[str, Collection[Any]] = {
                "owner": self.owners, "job": self.jobs, "schedule": self.schedules, "budget": self.budgets,
                "checkpoint": self.checkpoints, "lane": self.lanes, "batch": self.batches, "act": self.acts,
            }  # fmt: skip
            extra: list[ColumnElement[bool]] = [slots.c.name.like(KEY_SLOTS)] if table is slots else []
            extra += [answers.c.parent_id > 0] if table is answers else []
            yield from (and_(_in(table.c[kind.column], some), *extra) for some in _few(found[kind.by]))
        if table is follows:  # a schedule elsewhere follows one that goes
            yield from (
                and_(follows.c.schedule_id < 0, _in(follows.c.followed_id, some)) for some in _few(self.schedules)
            )
        if table is answers:  # what a schedule that goes has heard of those elsewhere that it follows
            yield from (and_(answers.c.parent_id < 0, _in(answers.c.job_id, some)) for some in _few(self.schedules))

    def lock(self) -> None:
        """Lock lanes, objects, periods of budgets and jobs, in the order in which every verb locks them.

        Verbs on a whole database, endings, timeouts, claims, enter no shard. What they add hangs on one of these rows,
        which they lock; so they are done before anything is taken out, or find nothing. Acts come before all others.
        """
        for some in _few(self.acts):
            self._lock(select(acts.c.id).where(_in(acts.c.id, some)).order_by(acts.c.id))
        for column, numbers in ((lanes.c.id, self.lanes), (objects.c.owner, self.owners)):
            for some in _few(numbers):
                self._lock(select(column.table.c.id).where(_in(column, some)).order_by(column.table.c.id))
        periods = budget_periods.c
        for some in _few(self.budgets):
            query = select(periods.budget_id).where(_in(periods.budget_id, some))
            self._lock(query.order_by(periods.budget_id, periods.starts_at))
        assert self.jobs is not None

    def _lock(self, query: Select[Any]) -> None:
        self.connection.execute(query.with_for_update()).all()

    def refuse_what_cannot_go(self) -> None:
        """Refuse to go while an act of the house walks this database, and rows that refer to rows which stay.

        An act of a tenant goes along: all jobs that it is about do, and their numbers, by which it walks, stay.
        """
        walking = select(acts.c.id, acts.c.state).where(acts.c.owner == SYSTEM, acts.c.state.not_in(OVER))
        if (found := self.connection.execute(walking.order_by(acts.c.id).limit(1)).first()) is not None:
            raise NotAllowed("vshard_act_open", id=f"act_{found.id}", state=found.state)
        ended = {f"{OF_JOB}{number}" for number in self._expecting} - {f"{OF_JOB}{number}" for number in self.jobs}
        for some in _few(ended):
            if self._has(expectations, and_(_in(expectations.c.subject, some), expectations.c.state == "open")):
                raise NotAllowed("vshard_rows_stay", what="expectations of jobs that have just ended")
        is_open = needs.c.state == "open"
        self._refuse_split(needs.c.job_id, self.jobs, needs.c.needed_id, self.jobs, "dependencies", is_open)
        near = and_(follows.c.schedule_id > 0, follows.c.followed_id > 0)
        pair = (follows.c.schedule_id, self.schedules, follows.c.followed_id, self.schedules)
        self._refuse_split(*pair, "schedules", near)
        is_waited_for = batch_jobs.c.batch_id.in_(select(batches.c.id).where(batches.c.state == "open"))
        is_live = and_(is_waited_for, batch_jobs.c.job_id.in_(select(jobs.c.id)))
        self._refuse_split(batch_jobs.c.batch_id, self.batches, batch_jobs.c.job_id, self.jobs, "batches", is_live)
        reserved = and_(reservations.c.state == "reserved", ~reservations.c.budget_id.in_(sorted(self.budgets) or [-1]))
        for some in _few(self.jobs):
            if self._has(reservations, and_(_in(reservations.c.job_id, some), reserved)):
                raise NotAllowed("vshard_rows_split", what="reservations of budgets")

    def _refuse_split(
        self,
        one: Column[Any],
        ones: Collection[int],
        other: Column[Any],
        others: Collection[int],
        what: str,
        *conditions: ColumnElement[bool],
    ) -> None:
        """Refuse a row that joins two of which only one goes."""
        for column, going in ((one, ones), (other, others)):
            for some in _few(going):
                pairs = self.connection.execute(select(one, other).where(_in(column, some), *conditions))
                if any((first in ones) != (second in others) for first, second in pairs if second is not None):
                    raise NotAllowed("vshard_rows_split", what=what)

    def _has(self, table: Table, condition: ColumnElement[bool]) -> bool:
        return self.connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one() > 0

    # -- who and what goes -------------------------------------------------------------------------------------

    @cached_property
    def owners(self) -> set[str]:
        """The tenants whose rows go."""
        columns = [metadata.tables[name].c.owner for name, kind in CLASSES.items()
                   if isinstance(kind, Moves) and kind.is_root and "owner" in metadata.tables[name].c]  # fmt: skip
        found: set[str] = set()
        for column in columns:
            found.update(self.connection.execute(select(column).distinct()).scalars())
        return {owner for owner in found if owner and owner != SYSTEM and self.cargo.has_owner(owner)}

    @cached_property
    def schedules(self) -> set[int]:
        query = select(schedules.c.id, schedules.c.owner, schedules.c.schedule_key)
        rows, has = self.connection.execute(query), self.cargo.has_key
        return {number for number, owner, key in rows if (has(key) if owner == SYSTEM else owner in self.owners)}

    @cached_property
    def jobs(self) -> set[int]:
        """The jobs that go; locked, because claims and endings enter no shard."""
        found: set[int] = set()
        vshard = jobs.c.id.bitwise_and(VSHARDS - 1)
        for some in _few(self.cargo.vshards):
            query = select(jobs.c.id).where(jobs.c.id >= FIRST_NUMBER, _in(vshard, some)).order_by(jobs.c.id)
            found.update(self.connection.execute(query.with_for_update()).scalars())
        return found | self._old_jobs()

    def _old_jobs(self) -> set[int]:
        """Return the jobs from before the cluster: of tenants, of schedules, and of the house with one key.

        Of the house's others none has another place than the first database.
        """
        named = (jobs.c.idempotency_key, jobs.c.unique_key, jobs.c.concurrency_key)
        rows = self.connection.execute(
            select(jobs.c.id, jobs.c.owner, jobs.c.schedule_id, *named).where(jobs.c.id < FIRST_NUMBER)
        )
        found: set[int] = set()
        keyed = self._schedule_keys
        for number, owner, schedule, *texts in rows:
            if owner != SYSTEM:
                vshard = self.cargo.vshard_of_owner(owner)
            elif schedule in keyed:
                vshard = self.cargo.vshard_of_key(keyed[schedule])
            else:
                places = {self.cargo.vshard_of_key(text) for text in texts if text is not None}
                if self.is_strict and len(places) > 1 and places & self.cargo.vshards:
                    raise NotAllowed("vshard_rows_split", what="two keys of a job from before the cluster")
                if len(places) != 1:
                    continue
                [vshard] = places
            if vshard in self.cargo.vshards:
                found.add(number)
                self.forwards[number] = vshard
        return found

    @cached_property
    def _schedule_keys(self) -> dict[int, str]:
        own = select(schedules.c.id, schedules.c.schedule_key).where(schedules.c.owner == SYSTEM)
        return {row.id: row.schedule_key for row in self.connection.execute(own)}

    @cached_property
    def budgets(self) -> set[int]:
        return self._of_owners(budgets.c.id, budgets.c.owner)

    @cached_property
    def lanes(self) -> set[int]:
        return self._of_owners(lanes.c.id, lanes.c.owner)

    @cached_property
    def acts(self) -> set[int]:
        return self._of_owners(acts.c.id, acts.c.owner)

    @cached_property
    def batches(self) -> set[int]:
        """The batches that go: of tenants, and those of the house whose number names one of the shards."""
        vshard = batches.c.id.bitwise_and(VSHARDS - 1)
        own = select(batches.c.id).where(batches.c.owner == SYSTEM, batches.c.id >= FIRST_NUMBER)
        queries = (own.where(_in(vshard, some)) for some in _few(self.cargo.vshards))
        found = {number for query in queries for number in self.connection.execute(query).scalars()}
        return found | self._of_owners(batches.c.id, batches.c.owner)

    @cached_property
    def checkpoints(self) -> set[str]:
        return self._of_owners(checkpoints.c.place, checkpoints.c.owner)

    def _of_owners(self, column: Column[Any], owner: Column[Any]) -> set[Any]:
        queries = (select(column).distinct().where(_in(owner, some)) for some in _few(self.owners))
        return {value for query in queries for value in self.connection.execute(query).scalars()}

    def _expectation_conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yield conditions for what is expected: of tenants, of schedules of the house, and of its single jobs."""
        yield from (_in(expectations.c.owner, some) for some in _few(self.owners))
        house = expectations.c.owner == SYSTEM
        of_schedules = and_(house, expectations.c.subject.not_like(f"{OF_JOB}%"))
        keys_expected = select(expectations.c.schedule_key).distinct().where(of_schedules)
        named = {key for key in self.connection.execute(keys_expected).scalars() if self.cargo.has_key(key)}
        yield from (and_(of_schedules, _in(expectations.c.schedule_key, some)) for some in _few(named))
        subjects = {f"{OF_JOB}{number}" for number in self._expecting}
        yield from (and_(house, _in(expectations.c.subject, some)) for some in _few(subjects))

    def _names(self, column: Column[Any]) -> set[str]:
        """Return the names of what lives by nothing else and goes."""
        found = self.connection.execute(select(column).distinct()).scalars()
        return {name for name in found if self.cargo.has_name(name)}

    @cached_property
    def _expecting(self) -> set[int]:
        """The jobs, live or ended, that something is or was expected of and that belong to the shards."""
        query = select(expectations.c.subject, expectations.c.owner).where(expectations.c.subject.like(f"{OF_JOB}%"))
        found = ((int(subject.removeprefix(OF_JOB)), owner) for subject, owner in self.connection.execute(query))
        return {number for number, owner in found
                if owner in self.owners or number in self.jobs or self.cargo.has_number(number)}  # fmt: skip

    def _message_conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yield conditions for what jobs and schedules that go have to tell others; the jobs may have ended."""
        of_job, sender = messages.c.kind.in_(OF_JOBS), messages.c.sender
        yield from (and_(of_job, condition) for condition in self._by_number(sender))
        yield from (and_(~of_job, _in(sender, some)) for some in _few(self.schedules))

    def _by_number(self, column: Column[Any]) -> Iterator[ColumnElement[bool]]:
        drawn, vshard = column >= FIRST_NUMBER, column.bitwise_and(VSHARDS - 1)
        yield from (and_(drawn, _in(vshard, some)) for some in _few(self.cargo.vshards))
        yield from (_in(column, some) for some in _few(self.forwards))

    def _key_conditions(self) -> Iterator[ColumnElement[bool]]:
        yield from (_in(keys.c.owner, some) for some in _few(self.owners))
        house, vshard = keys.c.owner == SYSTEM, keys.c.job_id.bitwise_and(VSHARDS - 1)
        yield from (and_(house, keys.c.job_id >= FIRST_NUMBER, _in(vshard, some)) for some in _few(self.cargo.vshards))
        old = select(keys.c.name, keys.c.job_id).where(house, keys.c.job_id < FIRST_NUMBER)
        texts = {name for name, number in self.connection.execute(old)
                 if number in self.jobs or self.cargo.has_key(name)}  # fmt: skip
        yield from (and_(house, keys.c.job_id < FIRST_NUMBER, _in(keys.c.name, some)) for some in _few(texts))


def _in(column: ColumnElement[Any], values: Collection[Any]) -> ColumnElement[bool]:
    return column.in_(values)


def _few(values: Collection[Any]) -> Iterator[list[Any]]:
    """Yield values in order, as many at once as one condition may name."""
    ordered = iter(sorted(values))
    while some := list(islice(ordered, IN)):
        yield some
