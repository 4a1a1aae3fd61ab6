"""Governed objects, their versions and their links. Nothing else writes these tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Select, and_, bindparam, func, or_, select, text, update
from sqlalchemy.exc import IntegrityError

from horae.core.governance.objects import GovernedObject, Link, ObjectFilter, ObjectVersion, Removals, StateCount
from horae.core.jobs.job import GOVERN, Job
from horae.core.time.instants import micros
from horae.errors import Conflict
from horae.stores.cluster.numbered import NUMBER, NumberedRows, with_numbers
from horae.stores.databases.bulk import find_by, insert_drawing, insert_rows, update_rows
from horae.stores.databases.dialects import BY_NAME
from horae.stores.tables.governance import (
    LINKS,
    OBJECTS,
    REMOVALS,
    VERSIONS,
    links,
    objects,
    removals,
    versions,
)
from horae.stores.tables.jobs import JOBS, jobs

if TYPE_CHECKING:
    from horae.stores.cluster.shard import Entrance

AT_ONCE = 500  # rows of one statement
FINAL = ("retracted", "retracted/uncertain", "retracted/supported", "retracted/refuted")
Name = tuple[str, str, str]  # owner, kind, id
T = TypeVar("T")
OF_NAME = select(*OBJECTS.select).where(objects.c.owner == bindparam("owner"), objects.c.object_id == bindparam("id"))


class Objects(NumberedRows):
    """The governed objects of one transaction."""

    # -- read ------------------------------------------------------------------------------------------------------

    def named(self, owner: str, id: str, kind: str | None = None) -> list[GovernedObject]:  # noqa: A002  # the public name of the field
        """Return the objects of this id, of which there may be one for each kind."""
        query = OF_NAME if kind is None else OF_NAME.where(objects.c.kind == kind)
        rows = self.connection.execute(query.order_by(objects.c.id), {"owner": owner, "id": id})
        return [OBJECTS.read(row) for row in rows]

    def by_name(self, names: Iterable[Name]) -> dict[Name, GovernedObject]:
        found: dict[Name, GovernedObject] = {}
        for row in self._named(select(*OBJECTS.select), names):
            each = OBJECTS.read(row)
            found[each.owner, each.kind, each.id] = each
        return found

    def kinds_by_number(self, names: Iterable[Name]) -> dict[int, str]:
        """Return the numbers of objects, each with its kind."""
        return {row.id: row.kind for row in self._named(select(objects.c.id, objects.c.kind), names)}

    def _named(self, query: Select[Any], names: Iterable[Name]) -> Iterator[Any]:
        """Yield what a query finds for these names."""
        by_kind: dict[tuple[str, str], list[str]] = {}
        for owner, kind, name in set(names):
            by_kind.setdefault((owner, kind), []).append(name)
        for (owner, kind), ids in sorted(by_kind.items()):
            same = query.where(objects.c.owner == owner, objects.c.kind == kind)
            yield from find_by(self.connection, same, objects.c.object_id, ids, each=True)

    def by_number(self, numbers: Iterable[int]) -> dict[int, GovernedObject]:
        found = {}
        for some in _chunks(sorted(set(numbers))):
            for each in self._read(select(*OBJECTS.select).where(objects.c.id.in_(some))):
                found[each.number] = each
        return found

    def lock(self, numbers: Iterable[int]) -> dict[int, GovernedObject]:
        """Lock objects in the order of their numbers, so that no two transactions wait for each other."""
        found = {}
        for some in _chunks(sorted(set(numbers))):
            query = select(*OBJECTS.select).where(objects.c.id.in_(some)).order_by(objects.c.id).with_for_update()
            for each in self._read(query):
                found[each.number] = each
        return found

    def find(self, wanted: ObjectFilter, *, limit: int, before: int | None) -> list[GovernedObject]:
        """Return a page of objects, newest first."""
        query = _filtered(wanted).order_by(objects.c.id.desc()).limit(limit)
        return self._read(query if before is None else query.where(objects.c.id < before))

    def find_due(self, wanted: ObjectFilter, *, limit: int, after: tuple[datetime, int] | None) -> list[GovernedObject]:
        """Return a page of objects that come due for something, those that are due first."""
        query = _filtered(wanted).where(objects.c.next_action_at.is_not(None))
        if after is not None:
            at, number = micros(after[0]), after[1]
            same = and_(objects.c.next_action_at == at, objects.c.id > number)
            query = query.where(or_(objects.c.next_action_at > at, same))
        return self._read(query.order_by(objects.c.next_action_at, objects.c.id).limit(limit))

    def count_states(self, owner: str | None, *, most: int) -> list[StateCount]:
        """Count the newest objects, at most so many, by kind and state, and those of them that are in trouble."""
        columns = (objects.c.kind, objects.c.state, objects.c.contested, objects.c.stalled)
        newest = select(*columns).order_by(objects.c.id.desc()).limit(most)
        seen = (newest if owner is None else newest.where(objects.c.owner == owner)).subquery()
        flags = (func.sum(seen.c.contested), func.sum(seen.c.stalled))
        query = select(seen.c.kind, seen.c.state, func.count(), *flags).group_by(seen.c.kind, seen.c.state)
        return [StateCount(kind, state, *map(int, numbers)) for kind, state, *numbers in self.connection.execute(query)]

    def count_due(self, owner: str | None, before: datetime, *, most: int) -> int:
        """Count objects that are due before an instant, up to *most*."""
        due = select(objects.c.id).where(objects.c.next_action_at <= micros(before))
        due = due if owner is None else due.where(objects.c.owner == owner)
        counted = select(func.count()).select_from(due.limit(most).subquery())
        return int(self.connection.execute(counted).scalar_one())

    def rejected_prints(self, owner: str, fingerprints: Collection[str]) -> set[str]:
        """Return which of these fingerprints an object has that was once rejected."""
        rejected = select(objects.c.fingerprint).where(objects.c.owner == owner, objects.c.rejected == 1)
        found = find_by(self.connection, rejected, objects.c.fingerprint, fingerprints, each=True)
        return {row.fingerprint for row in found}

    def put_back(self, owner: str, agent: str | None, *, limit: int) -> list[int]:
        """Return the numbers of objects whose job a gate has put back."""
        query = select(objects.c.id).where(objects.c.owner == owner, objects.c.put_backs > 0)
        query = query if agent is None else query.where(objects.c.agent == agent)
        return [row.id for row in self.connection.execute(query.order_by(objects.c.id).limit(limit))]

    def without_job(self, due_before: datetime, *, limit: int) -> list[GovernedObject]:
        """Return objects that are due for something and have no live job for it."""
        live = select(jobs.c.id).where(jobs.c.id == objects.c.job_id, jobs.c.state.in_(("queued", "running"))).exists()
        due = select(*OBJECTS.select).where(objects.c.next_action_at <= micros(due_before), ~live)
        return self._read(due.order_by(objects.c.next_action_at, objects.c.id).limit(limit))

    def walk(self, *, owner: str | None, after: int, limit: int) -> list[GovernedObject]:
        """Return objects in the order of their numbers."""
        query = select(*OBJECTS.select).where(objects.c.id > after).order_by(objects.c.id).limit(limit)
        return self._read(query if owner is None else query.where(objects.c.owner == owner))

    def live_jobs(self, found: Sequence[GovernedObject]) -> dict[int, Job]:
        """Return the planned jobs of these objects that wait or run, by the number of the object."""
        planned = {each.job: each.number for each in found if each.job is not None}
        known: dict[int, Job] = {}
        for some in _chunks(sorted(planned)):
            live = (jobs.c.id.in_(some), jobs.c.state.in_(("queued", "running")))
            for row in self.connection.execute(select(*JOBS.select).where(*live)):
                job = JOBS.read(row)
                known[planned[job.number]] = job
        return known

    def unclaimed(self, due_before: datetime, *, not_in: Collection[str], limit: int) -> list[GovernedObject]:
        """Return objects whose job has been due since before an instant and waits, in other queues than these."""
        waits = (jobs.c.state == "queued", jobs.c.held == "", jobs.c.run_at <= micros(due_before))
        query = select(*OBJECTS.select).join_from(objects, jobs, jobs.c.id == objects.c.job_id)
        query = query.where(objects.c.next_action_at <= micros(due_before), *waits)
        query = query.where(jobs.c.queue.not_in(sorted(not_in))) if not_in else query
        return self._read(query.order_by(objects.c.next_action_at, objects.c.id).limit(limit))

    def superfluous_jobs(self, *, limit: int) -> list[Job]:
        """Return jobs that wait or run for a stored object beside the one that it has planned.

        What still runs for an object that was retracted meanwhile was asked to end, and changes nothing.
        """
        same = (
            (objects.c.owner == jobs.c.owner)
            & (objects.c.kind == jobs.c.object_type)
            & (objects.c.object_id == jobs.c.object_id)
        )
        other = or_(objects.c.job_id.is_(None), objects.c.job_id != jobs.c.id)
        needed = or_(jobs.c.state == "queued", objects.c.state.not_in(FINAL))
        live = (jobs.c.handler == GOVERN, jobs.c.state.in_(("queued", "running")), other, needed)
        query = select(*JOBS.select).join_from(jobs, objects, same).where(*live).order_by(jobs.c.id).limit(limit)
        return [JOBS.read(row) for row in self.connection.execute(query)]

    def count_live(self, owner: str) -> int:
        """Count objects that are neither archived nor retracted."""
        gone = or_(objects.c.state.like("archived%"), objects.c.state.in_(FINAL))
        query = select(func.count()).select_from(objects).where(objects.c.owner == owner, ~gone)
        return int(self.connection.execute(query).scalar_one())

    # -- write -----------------------------------------------------------------------------------------------------

    def add(self, new: Sequence[GovernedObject]) -> list[int]:
        """Store new objects and return their numbers in the same order."""
        if not new:
            return []
        rows = [OBJECTS.values(each) for each in new]
        try:
            if self.entrance is not None:
                own = self._draw(self.entrance, new)
                insert_rows(self.connection, objects, (NUMBER, *OBJECTS.written), with_numbers(own, rows))
                return own
            drawn = insert_drawing(self.connection, objects, OBJECTS.written, rows, objects.c.id)
            if drawn is not None:
                return drawn
            insert_rows(self.connection, objects, OBJECTS.written, rows)
        except IntegrityError as problem:
            raise Conflict("object_exists", kind=new[0].kind, id=new[0].id) from problem
        names = [(each.owner, each.kind, each.id) for each in new]
        numbers: dict[Name, int] = {}
        wanted = select(objects.c.owner, objects.c.kind, objects.c.object_id, objects.c.id)
        for owner, kind, name, number in self._named(wanted, names):
            numbers[owner, kind, name] = number
        return [numbers[each] for each in names]

    def _draw(self, entrance: Entrance, new: Sequence[GovernedObject]) -> list[int]:
        """Return numbers that carry the shard of each object's owner, drawn for all of an owner at once."""
        counts = Counter(each.owner for each in new)
        drawn = {owner: iter(entrance.number(self.connection, owner, count=counts[owner])) for owner in sorted(counts)}
        return [next(drawn[each.owner]) for each in new]

    def save(self, changed: Sequence[tuple[GovernedObject, GovernedObject]]) -> None:
        """Write objects after a change; each must still have the version that it had before."""
        if not changed:
            return
        names, rows = OBJECTS.changing.columns, [OBJECTS.changing.values(after) for _, after in changed]
        fences = [(before.number, before.version) for before, _ in changed]
        if update_rows(self.connection, objects, names, rows, objects.c.id, objects.c.version, fences) != len(changed):
            known = self.by_number(before.number for before, _ in changed)
            missed = [before for before, after in changed if known.get(before.number) != after]
            which = missed[0] if missed else changed[0][0]
            raise Conflict("object_changed", kind=which.kind, id=which.id)

    # -- versions and content --------------------------------------------------------------------------------------

    def add_versions(self, new: Sequence[ObjectVersion]) -> None:
        insert_rows(self.connection, versions, VERSIONS.written, [VERSIONS.values(each) for each in new])

    def versions(self, number: int, *, limit: int = 1000, before: int | None = None) -> list[ObjectVersion]:
        query = select(*VERSIONS.select).where(versions.c.object_number == number)
        query = query if before is None else query.where(versions.c.version < before)
        rows = self.connection.execute(query.order_by(versions.c.version.desc()).limit(limit))
        return [VERSIONS.read(row) for row in rows]

    def versions_of(self, numbers: Iterable[int], *, after: tuple[int, int], limit: int) -> list[ObjectVersion]:
        """Return versions of objects, by the number of the object and oldest first, from after one of them."""
        number, version = after
        left = [each for each in numbers if each >= number]
        later = or_(versions.c.object_number > number, versions.c.version > version)
        query = select(*VERSIONS.select).where(versions.c.object_number.in_(left), later)
        return [VERSIONS.read(row) for row in self.connection.execute(query.order_by(*VERSION_KEY).limit(limit))]

    def contents(self, numbers: Iterable[int]) -> dict[int, ObjectVersion]:
        """Return for each object the last version that has content."""
        found: dict[int, ObjectVersion] = {}
        for some in _chunks(sorted(set(numbers))):
            with_content = and_(versions.c.object_number.in_(some), versions.c.content.is_not(None))
            for row in self.connection.execute(select(*VERSIONS.select).where(with_content).order_by(*VERSION_KEY)):
                each = VERSIONS.read(row)
                found[each.object] = each
        return found

    def erase_content(self, number: int) -> None:
        """Forget the content of an object, in every version, and the key of its digest."""
        nothing = {"content": None, "content_key": None, "snapshot": "{}"}
        self.connection.execute(update(versions).where(versions.c.object_number == number).values(nothing))

    # -- links -----------------------------------------------------------------------------------------------------

    def add_links(self, new: Sequence[Link]) -> None:
        insert_rows(self.connection, links, LINKS.written, [LINKS.values(each) for each in new])

    def rests_on(self, numbers: Iterable[int]) -> list[Link]:
        """Return what these objects rest on."""
        return self._links(links.c.object_number, numbers)

    def resting_on(self, numbers: Iterable[int]) -> list[Link]:
        """Return what rests on these objects."""
        return self._links(links.c.rests_on, numbers)

    def neighbours(self, number: int, *, limit: int) -> tuple[list[GovernedObject], list[GovernedObject]]:
        """Return what an object rests on and what rests on it, the newest of each."""
        return (
            self._linked(links.c.rests_on, links.c.object_number == number, limit),
            self._linked(links.c.object_number, links.c.rests_on == number, limit),
        )

    def _linked(self, other: Any, here: Any, limit: int) -> list[GovernedObject]:
        query = select(*OBJECTS.select).join_from(links, objects, objects.c.id == other).where(here)
        return self._read(query.order_by(objects.c.id.desc()).limit(limit))

    # -- removals --------------------------------------------------------------------------------------------------

    def lock_removals(self, owner: str, day: datetime) -> Removals:
        """Lock the count of an owner's removals of one day, so that the cap holds for all workers together."""
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        sql = f"{before} {removals.name} (owner, day_at, removed) VALUES (:owner, :day, 0) {behind}"
        self.connection.execute(text(sql), {"owner": owner, "day": micros(day)})
        query = select(*REMOVALS.select).where(removals.c.owner == owner, removals.c.day_at == micros(day))
        return REMOVALS.read(self.connection.execute(query.with_for_update()).one())

    def removals(self, owner: str | None) -> list[Removals]:
        query = select(*REMOVALS.select).order_by(removals.c.owner, removals.c.day_at)
        query = query if owner is None else query.where(removals.c.owner == owner)
        return [REMOVALS.read(row) for row in self.connection.execute(query)]

    def put_removals(self, counted: Removals) -> None:
        same = (removals.c.owner == counted.owner, removals.c.day_at == micros(counted.day))
        changed = {"removed": counted.removed, "live_objects": counted.live}
        self.connection.execute(update(removals).where(*same).values(changed))

    # -- queries ---------------------------------------------------------------------------------------------------

    def _read(self, query: Select[Any]) -> list[GovernedObject]:
        return [OBJECTS.read(row) for row in self.connection.execute(query)]

    def _links(self, column: Any, numbers: Iterable[int]) -> list[Link]:
        found: list[Link] = []
        for some in _chunks(sorted(set(numbers))):
            rows = self.connection.execute(select(*LINKS.select).where(column.in_(some)).order_by(*LINK_KEY))
            found += [LINKS.read(row) for row in rows]
        return found


VERSION_KEY = (versions.c.object_number, versions.c.version)
LINK_KEY = (links.c.object_number, links.c.rests_on)


def _filtered(wanted: ObjectFilter) -> Select[Any]:
    query = select(*OBJECTS.select).where(*OBJECTS.equal(wanted, leave_out=("states", "due_before")))
    if wanted.states:
        query = query.where(objects.c.state.in_(wanted.states))
    if wanted.due_before is not None:
        query = query.where(objects.c.next_action_at <= micros(wanted.due_before))
    return query


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]
