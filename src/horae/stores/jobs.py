"""Jobs on the control plane: reading, finding, counting, and the manual acts. SQLAlchemy Core, any connection.

Live and dead jobs are in ``horae_jobs``; finished ones live on as their final row in ``horae_runs``. Readers see
one list.
"""

# size: one room, one class; every way to read and change jobs by hand, on any connection

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from horae.core.instants import micros
from horae.core.jobs import Job, NewJob, Run
from horae.errors import Conflict, KeyConflict, NotFound
from horae.ports import Filter, Placed
from horae.stores.dialects import BY_NAME, Dialect
from horae.stores.driver import Driver
from horae.stores.links import Ended, Links
from horae.stores.rows import (
    ATTEMPT,
    INSERT_COLUMNS,
    JOB_SELECT,
    RUN_SELECT,
    SNAPSHOT,
    chunks,
    finished_job_from,
    job_from,
    new_job_row,
    run_from,
    running_run,
)
from horae.stores.slots import Slots
from horae.stores.tables import jobs, keys, needs, runs, slots

CHUNK = 500
Name = tuple[str, str, str]  # scope, owner, name


class Position(FunctionElement[int]):
    """Where a text begins in another, from 1 on, compared byte by byte; LIKE would ignore case on some databases."""

    type = Integer()
    inherit_cache = True


@compiles(Position)
def _position(element: Position, compiler: Any, **options: Any) -> str:
    dialect = BY_NAME[compiler.dialect.name]
    column, text = (compiler.process(part, **options) for part in element.clauses)
    return f"{dialect.position_function}({dialect.json_as_text.format(column)}, {text})"


class Jobs:
    """The job rows of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # -- reading -----------------------------------------------------------------------------------------------

    def get(self, number: int) -> Job | None:
        row = self.connection.execute(select(*JOB_SELECT).where(jobs.c.id == number)).first()
        if row is not None:
            return job_from(row)
        final = select(*RUN_SELECT).where(runs.c.job_id == number, runs.c.state.is_not(None))
        ended = self.connection.execute(final).mappings().first()
        return None if ended is None else finished_job_from(ended)

    def lock(self, number: int) -> Job | None:
        """The live or dead job, kept from changing until the transaction ends."""
        row = self.connection.execute(select(*JOB_SELECT).where(jobs.c.id == number).with_for_update()).first()
        return None if row is None else job_from(row)

    def find(self, wanted: Filter, *, limit: int, before: int | None) -> list[Job]:
        """Newest first, live and finished together, a page at a time."""
        live = self._narrowed(select(*JOB_SELECT), jobs, wanted).order_by(jobs.c.id.desc()).limit(limit)
        ended = self._narrowed(select(*RUN_SELECT).where(runs.c.state.is_not(None)), runs, wanted)
        ended = ended.order_by(runs.c.job_id.desc()).limit(limit)
        if before is not None:
            live, ended = live.where(jobs.c.id < before), ended.where(runs.c.job_id < before)
        found = {row[0]: job_from(row) for row in self.connection.execute(live)}
        for row in self.connection.execute(ended).mappings():  # a job that ended between the two looks is found twice
            found[row["job_id"]] = finished_job_from(row)
        return [found[number] for number in sorted(found, reverse=True)[:limit]]

    def _narrowed(self, query: Select[Any], table: Any, wanted: Filter) -> Select[Any]:
        c = table.c
        equal = {
            c.queue: wanted.queue,
            c.handler: wanted.handler,
            c.owner: wanted.owner,
            c.idempotency_key: wanted.key,
            c.object_type: wanted.object_type,
            c.object_id: wanted.object_id,
        }
        query = query.where(*(column == value for column, value in equal.items() if value is not None))
        if wanted.states:
            query = query.where(c.state.in_(wanted.states))
        if wanted.tag is not None:
            query = query.where(_holds_tag(c.tags, wanted.tag))
        if wanted.created_after is not None:
            query = query.where(c.created_at >= micros(wanted.created_after))
        if wanted.created_before is not None:
            query = query.where(c.created_at < micros(wanted.created_before))
        return query

    def runs(self, number: int) -> list[Run]:
        """Every attempt, the oldest first; the one under way comes last."""
        job = self.get(number)
        query = select(*RUN_SELECT).where(runs.c.job_id == number).order_by(runs.c.token)
        told = [run_from(row) for row in self.connection.execute(query).mappings()]
        under_way = job is not None and job.state == "running" and job.token not in {run.token for run in told}
        return [*told, running_run(job)] if job is not None and under_way else told

    def counts(self, queue: str | None, owner: str | None) -> dict[tuple[str, str], int]:
        """How many jobs are in which (queue, state)."""
        found: dict[tuple[str, str], int] = {}
        for table in (jobs, runs):
            query = select(table.c.queue, table.c.state, func.count()).where(table.c.state.is_not(None))
            query = query.group_by(table.c.queue, table.c.state)
            if queue is not None:
                query = query.where(table.c.queue == queue)
            if owner is not None:
                query = query.where(table.c.owner == owner)
            for name, state, count in self.connection.execute(query):
                found[name, state] = found.get((name, state), 0) + count
        return found

    def metrics(self, *, now: datetime, since: datetime, owner: str | None) -> dict[str, Any]:
        """The raw figures behind S0-29 to S0-33; finished jobs count from *since* on."""
        mine = [jobs.c.owner == owner] if owner is not None else []
        due = and_(jobs.c.state == "queued", jobs.c.held == "", jobs.c.run_at <= micros(now))
        due_count, oldest = self.connection.execute(
            select(func.count(), func.min(jobs.c.run_at)).where(due, *mine)
        ).one()
        dead = self.connection.execute(
            select(func.count(), func.coalesce(func.sum(case((jobs.c.finished_at >= micros(since), 1), else_=0)), 0))
            .where(jobs.c.state == "dead", *mine)
        ).one()  # fmt: skip
        recent = [runs.c.finished_at >= micros(since), *([runs.c.owner == owner] if owner is not None else [])]
        ended = self.connection.execute(
            select(
                func.coalesce(func.sum(case((runs.c.state == "succeeded", 1), else_=0)), 0),
                func.coalesce(func.sum(case((runs.c.state.is_not(None), 1), else_=0)), 0),
                func.coalesce(func.sum(case((and_(runs.c.state.is_not(None), runs.c.attempt > 0), 1), else_=0)), 0),
            ).where(*recent)
        ).one()
        live = self.connection.execute(
            select(func.count(), func.coalesce(func.sum(case((jobs.c.attempt > 0, 1), else_=0)), 0))
            .where(jobs.c.created_at >= micros(since), *mine)
        ).one()  # fmt: skip
        return {
            "due": due_count,
            "oldest_due": oldest,
            "dead": dead[0],
            "dead_recently": int(dead[1]),
            "succeeded": int(ended[0]),
            "finished": int(ended[1]),
            "finished_after_retry": int(ended[2]),
            "live": live[0],
            "live_after_retry": int(live[1]),
        }

    # -- manual acts -------------------------------------------------------------------------------------------

    def requeue(self, job: Job, *, run_at: datetime, attempt: int, band: int | None, now: datetime) -> bool:
        """Put a waiting or dead job (back) into the queue at another time, guarded by what was read."""
        values: dict[str, Any] = {"state": "queued", "run_at": micros(run_at), "attempt": attempt, "finished_at": None}
        if band is not None:
            values["band"] = band
        if job.state == "dead":
            values |= {"token": jobs.c.token + 1, "worker_id": None, "started_at": None, "cancel_reason": None}
            if job.unique is not None and not self._takes_name(job, now):
                return False
        if job.held == "slot":
            values |= {"held": "", "held_for": None}  # its turn is decided again when its new time has come
        changed = self._guarded(job, values)
        self._let_next_in(job)
        return changed

    def _let_next_in(self, job: Job) -> None:
        """A waiting job that leaves the line must not take with it the turn of those behind it."""
        told = (("key", job.concurrency_key), ("group", job.group))
        names = [f"{kind}:{name}" for kind, name in told if name is not None]
        if names:
            driver, slots = self._driver(), Slots(self._dialect)
            slots.lock(driver, names)
            slots.let_in(driver, names)

    @property
    def _dialect(self) -> Dialect:
        return BY_NAME[self.connection.dialect.name]

    def _driver(self) -> Driver:
        """The same transaction, for flows that the hot statements share."""
        return Driver(self.connection.connection.driver_connection, self._dialect.placeholder)

    def _takes_name(self, job: Job, now: datetime) -> bool:
        """A revived job needs its unique name again; somebody else may have it by now."""
        row = {"scope": "unique", "owner": job.owner, "name": job.unique, "job_id": job.number, "request_hash": ""}
        return self._insert_or_ignore([row | {"created_at": micros(now)}]) == 1

    def end_waiting(self, job: Job, *, reason: str | None, now: datetime) -> bool:
        """Finish a job that is not running: its row moves to the history as cancelled."""
        copied = [jobs.c[name] for name in (*ATTEMPT, *SNAPSHOT) if name != "cancel_reason"]
        row = select(
            jobs.c.id, jobs.c.token + 1, literal("cancelled"), literal("cancelled"), jobs.c.attempt,
            literal(micros(now)), literal(reason or ""), jobs.c.last_error, *copied,
        ).where(*_guard(job))  # fmt: skip
        names = ["job_id", "token", "outcome", "state", "attempt", "finished_at", "cancel_reason", "error"]
        names += [column.name for column in copied]
        self.connection.execute(insert(runs).from_select(names, row))
        if self.connection.execute(delete(jobs).where(*_guard(job))).rowcount != 1:
            return False
        self.connection.execute(delete(keys).where(keys.c.scope == "unique", keys.c.job_id == job.number))
        self._let_next_in(job)
        if job.linked:
            Links(self._dialect).after(self._driver(), [Ended(job.number, job.schedule_id, False)], now)
        return True

    def ask_to_cancel(self, job: Job, *, reason: str) -> bool:
        """A running job is asked; its worker obeys at the next safe moment."""
        return self._guarded(job, {"cancel_reason": reason})

    def _guarded(self, job: Job, values: dict[str, Any]) -> bool:
        return self.connection.execute(update(jobs).where(*_guard(job)).values(values)).rowcount == 1

    # -- enqueue, on any connection ----------------------------------------------------------------------------

    def insert(self, new: Sequence[NewJob], now: datetime) -> list[Placed]:
        """Store jobs; one whose key or unique name is known becomes the job that has it."""
        known = self._known(new)
        placed: list[Placed | None] = [None] * len(new)
        fresh: dict[Name, int] = {}
        twins: dict[int, int] = {}
        for place, job in enumerate(new):
            names = _names(job)
            there = next((known[name] for name in names if name in known), None)
            twin = next((name for name in names if name in fresh), None)
            if there is not None:
                placed[place] = _deduplicated(job, *there)
            elif twin is not None:
                twins[place] = fresh[twin]
                _deduplicated(job, 0, _hash_behind(twin, new[fresh[twin]]))  # refused before anything is stored
            else:
                fresh |= dict.fromkeys(names, place)
        waiting = [place for place in range(len(new)) if placed[place] is None and place not in twins]
        numbers = self._add([new[place] for place in waiting], now)
        for place, where in zip(waiting, self._named([new[place] for place in waiting], numbers, now), strict=True):
            placed[place] = where
        self._wait_for_others([(new[place].after, placed[place]) for place in waiting if new[place].after])
        for place, twin_place in twins.items():
            original = placed[twin_place]
            assert original is not None
            placed[place] = Placed(original.number, deduplicated=True, request_hash=original.request_hash)
        return [where for where in placed if where is not None]

    def _wait_for_others(self, waiting: Sequence[tuple[tuple[int, ...], Placed | None]]) -> None:
        """Note which unfinished jobs a new one waits for; with none left it may run at once."""
        for needed, where in waiting:
            if where is None or where.deduplicated:
                continue
            query = select(jobs.c.id).where(jobs.c.id.in_(needed)).order_by(jobs.c.id).with_for_update()
            live = [row.id for row in self.connection.execute(query)]
            self._refuse_unreachable([number for number in needed if number not in live])
            if live:
                rows = [{"job_id": where.number, "needed_id": number} for number in live]
                self.connection.execute(insert(needs), rows)
                self.connection.execute(update(jobs).where(jobs.c.id.in_(live)).values(linked=1))
            else:
                free = update(jobs).where(jobs.c.id == where.number).values(held="", held_for=None)
                self.connection.execute(free)

    def _refuse_unreachable(self, numbers: Sequence[int]) -> None:
        """What has ended must have succeeded; what never was, or was cancelled, will never let anybody go."""
        for number in numbers:
            final = select(runs.c.state).where(runs.c.job_id == number, runs.c.state.is_not(None))
            state = self.connection.execute(final).scalar()
            if state is None:
                raise NotFound(f"A job cannot wait for job_{number}: there is no such job.")
            if state != "succeeded":
                raise Conflict(f"A job cannot wait for job_{number}: it has ended as {state} and will never succeed.")

    def start(self, number: int, *, worker_id: str, until: datetime, now: datetime) -> None:
        """Mark a job as running in the hands of whoever stored it."""
        held = {"worker_id": worker_id, "leased_until": micros(until), "started_at": micros(now)}
        self.connection.execute(update(jobs).where(jobs.c.id == number).values(state="running", token=1, **held))

    def holders(self, concurrency_key: str) -> list[Job]:
        """The running jobs that hold the places of a concurrency key."""
        places = select(slots.c.job_id).where(slots.c.name == f"key:{concurrency_key}", slots.c.job_id.is_not(None))
        query = select(*JOB_SELECT).where(jobs.c.id.in_(places), jobs.c.state == "running")
        return [job_from(row) for row in self.connection.execute(query)]

    def _known(self, new: Sequence[NewJob], *, latest: bool = False) -> dict[Name, tuple[int, str]]:
        """Who has these names; *latest*: also what was committed after this transaction's first look."""
        wanted = sorted({name for job in new for name in _names(job)})
        found: dict[Name, tuple[int, str]] = {}
        for scope, owner in sorted({name[:2] for name in wanted}):
            texts = [name[2] for name in wanted if name[:2] == (scope, owner)]
            for start in range(0, len(texts), CHUNK):
                query = select(keys.c.name, keys.c.job_id, keys.c.request_hash).where(
                    keys.c.scope == scope, keys.c.owner == owner, keys.c.name.in_(texts[start : start + CHUNK])
                )
                for name, number, request_hash in self.connection.execute(
                    query.with_for_update(read=True) if latest else query
                ):
                    found[scope, owner, name] = (number, request_hash)
        return found

    def _add(self, new: Sequence[NewJob], now: datetime) -> list[int]:
        numbers: list[int] = []
        for chunk in chunks(new, 1000):
            rows = [dict(zip(INSERT_COLUMNS, new_job_row(job, now), strict=True)) for job in chunk]
            numbers += self._add_rows(rows)
        return numbers

    def _add_rows(self, rows: list[dict[str, Any]]) -> list[int]:
        last = BY_NAME[self.connection.dialect.name].last_number
        if last:  # the only writer draws consecutive numbers
            self.connection.execute(insert(jobs), rows)
            number = int(self.connection.execute(text(last)).scalar_one())
            return list(range(number - len(rows) + 1, number + 1))
        if self.connection.dialect.insert_executemany_returning_sort_by_parameter_order:
            statement = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)
            return [row[0] for row in self.connection.execute(statement, rows)]
        answers = [self.connection.execute(insert(jobs).values(row)) for row in rows]
        return [answer.inserted_primary_key[0] for answer in answers]  # type: ignore[index]

    def _named(self, new: Sequence[NewJob], numbers: Sequence[int], now: datetime) -> list[Placed]:
        """Take the names of fresh jobs; whoever lost a race for one becomes the winner's duplicate."""
        rows = [
            {"scope": name[0], "owner": name[1], "name": name[2], "job_id": number,
             "request_hash": _hash_behind(name, job), "created_at": micros(now)}
            for job, number in zip(new, numbers, strict=True) for name in _names(job)
        ]  # fmt: skip
        placed = [Placed(number, request_hash=job.request_hash) for job, number in zip(new, numbers, strict=True)]
        if not rows or self._insert_or_ignore(sorted(rows, key=_by_name)) == len(rows):
            return placed
        known = self._known(new, latest=True)
        winners = [
            next((known[name] for name in _names(job) if known[name][0] != number), None)
            for job, number in zip(new, numbers, strict=True)
        ]
        try:
            told = [
                where if winner is None else _deduplicated(job, *winner)
                for job, where, winner in zip(new, placed, winners, strict=True)
            ]
        except KeyConflict:
            self._withdraw(numbers)
            raise
        self._withdraw([number for number, winner in zip(numbers, winners, strict=True) if winner is not None])
        return told

    def _withdraw(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            self.connection.execute(delete(jobs).where(jobs.c.id.in_(chunk)))
            self.connection.execute(delete(keys).where(keys.c.job_id.in_(chunk)))

    def _insert_or_ignore(self, rows: Sequence[dict[str, Any]]) -> int:
        """Insert the names that are free; how many that were."""
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        names = list(rows[0])
        taken = 0
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            told = ", ".join("(" + ", ".join(f":{name}{place}" for name in names) + ")" for place in range(len(chunk)))
            values = {f"{name}{place}": value for place, row in enumerate(chunk) for name, value in row.items()}
            statement = text(f"{before} horae_keys ({', '.join(names)}) VALUES {told} {behind}")
            taken += self.connection.execute(statement, values).rowcount
        return taken


def _by_name(row: dict[str, Any]) -> Name:
    return row["scope"], row["owner"], row["name"]


def _hash_behind(name: Name, job: NewJob) -> str:
    """Only a key tells requests apart; a unique name does not ask what for."""
    return job.request_hash if name[0] == "key" else ""


def _names(job: NewJob) -> list[Name]:
    told = (("key", job.key), ("unique", job.unique))
    return [(scope, job.owner, name) for scope, name in told if name is not None]


def _deduplicated(job: NewJob, number: int, request_hash: str) -> Placed:
    if job.key is not None and request_hash and request_hash != job.request_hash:
        raise KeyConflict(job.key, f"job_{number}")
    return Placed(number, deduplicated=True, request_hash=request_hash)


def _guard(job: Job) -> tuple[ColumnElement[bool], ...]:
    return (jobs.c.id == job.number, jobs.c.token == job.token, jobs.c.state == job.state)


def _holds_tag(column: Any, tag: str) -> ColumnElement[bool]:
    """Tags are a JSON list of strings: look for the quoted tag in its text."""
    return func.coalesce(Position(type_coerce(column, Text), json.dumps(tag, ensure_ascii=False)), 0) > 0
