"""Store calls that are debounced or collected: each joins the open job of its name, or opens one.

The name is a row of ``horae_keys`` in the scope ``gather``; it points to the open job, or to none. Its lock is taken
first and the job's after it, by every call, so that two calls of one name come one after the other; claims and endings
never touch the name. A job that was handed to a worker has a token, and is open no more: the next call finds that under
the job's lock, and opens another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime

from sqlalchemy import ColumnElement, select, text, update

from horae.core.dataclass import dataclass
from horae.core.jobs.gathered_jobs import Pending
from horae.core.jobs.job import NewJob
from horae.core.time.instants import instant, micros
from horae.ports.jobs import Placed
from horae.stores.databases.dialects import BY_NAME
from horae.stores.jobs.insertion import Insertion, deduplicate
from horae.stores.tables.jobs import jobs, keys

SCOPE = "gather"
Name = tuple[str, str]  # owner, text


@dataclass(eq=False)
class _Part:
    """One job of a call or several: there before, or to be stored."""

    job: NewJob
    pending: Pending
    number: int = 0  # 0: not stored yet
    was_there: bool = False
    is_changed: bool = False
    members: list[tuple[int, int]] = field(default_factory=list)  # which request, and how many there were with it


class Gathering:
    """Calls that join each other, in one transaction, ours or a caller's."""

    def __init__(self, insertion: Insertion) -> None:
        self.insertion = insertion
        self.connection = insertion.connection

    def insert(self, asked: Sequence[NewJob], now: datetime) -> list[Placed]:
        """Store jobs, some of which join others; the answers are in the order of the requests."""
        plain = [index for index, job in enumerate(asked) if job.gather is None]
        stored = self.insertion.insert([asked[index] for index in plain], now) if plain else []
        placed = dict(zip(plain, stored, strict=True))
        twins = self._take_keys(asked, placed, now)
        groups: dict[Name, list[int]] = {}
        for index, job in enumerate(asked):
            if job.gather is not None and index not in placed and index not in twins:
                groups.setdefault((job.owner, job.gather.name), []).append(index)
        for name in sorted(groups):  # two transactions never wait for each other's names
            placed |= self._gather(name, asked, groups[name], now)
        for indices in groups.values():
            for index in indices:
                self._point_key(asked[index], placed[index].number)
        for index, first in twins.items():
            placed[index] = replace(placed[first], deduplicated=True)
        return [placed[index] for index in range(len(asked))]

    # -- idempotency keys ------------------------------------------------------------------------------------------

    def _take_keys(self, asked: Sequence[NewJob], placed: dict[int, Placed], now: datetime) -> dict[int, int]:
        """Take the keys of calls before anything is joined; answer repeated ones, and return twins within this call."""
        first: dict[Name, int] = {}
        twins: dict[int, int] = {}
        named = [index for index, job in enumerate(asked) if job.gather is not None and job.key is not None]
        for index in sorted(named, key=lambda each: (asked[each].owner, asked[each].key or "", each)):
            job = asked[index]
            name = (job.owner, job.key or "")
            if name in first:
                deduplicate(job, 0, asked[first[name]].request_hash)
                twins[index] = first[name]
                continue
            row = {"scope": "key", "owner": job.owner, "name": job.key, "job_id": 0}
            row |= {"request_hash": job.request_hash, "created_at": micros(now)}
            if self.insertion.take_names([row]):
                first[name] = index
                continue
            number, known_hash = self.insertion.find_holders([job], latest=True)["key", *name]
            placed[index] = deduplicate(job, number, known_hash)
        return twins

    def _point_key(self, job: NewJob, number: int) -> None:
        if job.key is not None:
            own = (keys.c.scope == "key", keys.c.owner == job.owner, keys.c.name == job.key)
            self.connection.execute(update(keys).where(*own).values(job_id=number))

    # -- joining ---------------------------------------------------------------------------------------------------

    def _gather(self, name: Name, asked: Sequence[NewJob], indices: Sequence[int], now: datetime) -> dict[int, Placed]:
        """Let calls of one name join the open job in their order; those that do not fit open further ones."""
        part = self._lock_open(name, asked[indices[0]], now)
        parts = [] if part is None else [part]
        for index in indices:
            part = _join(part, index, asked[index], now)
            if part is None:
                part = _open(index, asked[index], now)
                parts.append(part)
            gather = asked[index].gather
            assert gather is not None
            if gather.is_full(part.pending):
                _close(part, now)
                part = None
        for earlier in parts[:-1]:
            _close(earlier, now)
        self._write(parts, now)
        self._point(name, part, now)
        return {
            index: Placed(
                each.number,
                deduplicated=each.was_there or place > 0,
                request_hash=asked[index].request_hash,
                run_at=each.pending.run_at,
                gathered=count,
            )
            for each in parts
            for place, (index, count) in enumerate(each.members)
        }

    def _lock_open(self, name: Name, job: NewJob, now: datetime) -> _Part | None:
        """Lock a name, made if it is new, and the open job that it points to; None where there is none."""
        behind = BY_NAME[self.connection.dialect.name].upsert[0].format(key="scope, owner, name")
        make = (
            "INSERT INTO horae_keys (scope, owner, name, job_id, request_hash, created_at) "
            f"SELECT '{SCOPE}', :owner, :name, 0, '', {micros(now)} {behind} job_id = horae_keys.job_id"
        )
        self.connection.execute(text(make), {"owner": name[0], "name": name[1]})
        known = select(keys.c.job_id, keys.c.request_hash).where(*_of(name)).with_for_update()
        number, count = self.connection.execute(known).one()
        if not number:
            return None
        is_open = (jobs.c.id == number, jobs.c.state == "queued", jobs.c.token == 0, jobs.c.unique_key == name[1])
        query = select(jobs.c.payload, jobs.c.run_at, jobs.c.created_at).where(*is_open).with_for_update()
        found = self.connection.execute(query).first()
        if found is None:
            return None
        pending = Pending(found.payload, int(count), instant(found.created_at), instant(found.run_at))
        return _Part(job, pending, number, was_there=True)

    def _write(self, parts: Sequence[_Part], now: datetime) -> None:
        for part in parts:
            if part.was_there and part.is_changed:
                at = micros(part.pending.run_at)
                values = {"payload": part.pending.payload, "run_at": at, "planned_at": at}
                self.connection.execute(update(jobs).where(jobs.c.id == part.number).values(values))
        new = [part for part in parts if not part.was_there]
        for part, number in zip(new, self.insertion.add([_as_new(part) for part in new], now), strict=True):
            part.number = number

    def _point(self, name: Name, part: _Part | None, now: datetime) -> None:
        """Let the name point to the open job, with how many have joined it, or to none."""
        values = {"job_id": 0, "request_hash": ""}
        if part is not None:
            values = {"job_id": part.number, "request_hash": str(part.pending.count)}
        self.connection.execute(update(keys).where(*_of(name)).values(values | {"created_at": micros(now)}))


def _of(name: Name) -> tuple[ColumnElement[bool], ...]:
    return keys.c.scope == SCOPE, keys.c.owner == name[0], keys.c.name == name[1]


def _join(part: _Part | None, index: int, job: NewJob, now: datetime) -> _Part | None:
    """Return the part with one more call; None where there is none, or where it does not fit in."""
    assert job.gather is not None
    joined = None if part is None else job.gather.join(part.pending, job.payload, now)
    if part is None or joined is None:
        return None
    part.pending, part.is_changed = joined, True
    part.members.append((index, joined.count))
    return part


def _open(index: int, job: NewJob, now: datetime) -> _Part:
    assert job.gather is not None
    pending = job.gather.open(job.payload, now)
    return _Part(job, pending, members=[(index, pending.count)])


def _close(part: _Part, now: datetime) -> None:
    """Let a job that is full start at once."""
    if part.pending.run_at > now:
        part.pending, part.is_changed = replace(part.pending, run_at=now), True


def _as_new(part: _Part) -> NewJob:
    pending = part.pending
    return replace(part.job, payload=pending.payload, run_at=pending.run_at, planned_at=pending.run_at)
