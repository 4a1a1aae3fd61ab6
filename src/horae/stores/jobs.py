"""Jobs on the control plane: reading, finding, counting, and the manual acts. SQLAlchemy Core, any connection.

Live and dead jobs are in ``horae_jobs``; finished ones live on as their final row in ``horae_runs``. Readers see
one list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    update,
)

from horae.core.instants import micros
from horae.core.jobs import Job, NewJob, Run
from horae.errors import KeyConflict
from horae.ports import Filter, Placed
from horae.stores.dialects import BY_NAME
from horae.stores.rows import (
    ATTEMPT,
    INSERT_COLUMNS,
    JOB_SELECT,
    RUN_SELECT,
    SNAPSHOT,
    finished_job_from,
    job_from,
    new_job_row,
    run_from,
    running_run,
)
from horae.stores.tables import jobs, keys, runs

CHUNK = 500


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
        found = [job_from(row) for row in self.connection.execute(live)]
        found += [finished_job_from(row) for row in self.connection.execute(ended).mappings()]
        return sorted(found, key=lambda job: -job.number)[:limit]

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
        query = select(*RUN_SELECT).where(runs.c.job_id == number).order_by(runs.c.token)
        told = [run_from(row) for row in self.connection.execute(query).mappings()]
        job = self.get(number)
        return [*told, running_run(job)] if job is not None and job.state == "running" else told

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
        return self._guarded(job, values)

    def _takes_name(self, job: Job, now: datetime) -> bool:
        """A revived job needs its unique name again; somebody else may have it by now."""
        mine = (keys.c.scope == "unique", keys.c.owner == job.owner, keys.c.name == job.unique)
        if self.connection.execute(select(keys.c.job_id).where(*mine).with_for_update()).first() is not None:
            return False
        row = {"scope": "unique", "owner": job.owner, "name": job.unique, "job_id": job.number, "request_hash": ""}
        self.connection.execute(insert(keys), row | {"created_at": micros(now)})
        return True

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
        self.connection.execute(delete(keys).where(keys.c.scope == "unique", keys.c.job_id == job.number))
        return self.connection.execute(delete(jobs).where(*_guard(job))).rowcount == 1

    def ask_to_cancel(self, job: Job, *, reason: str) -> bool:
        """A running job is asked; its worker obeys at the next safe moment."""
        return self._guarded(job, {"cancel_reason": reason})

    def _guarded(self, job: Job, values: dict[str, Any]) -> bool:
        return self.connection.execute(update(jobs).where(*_guard(job)).values(values)).rowcount == 1

    # -- enqueue, on any connection ----------------------------------------------------------------------------

    def insert(self, new: Sequence[NewJob], now: datetime) -> list[Placed]:
        """Store jobs; one whose key or unique name is known becomes the job that has it."""
        known = self._known([job for job in new if job.key is not None or job.unique is not None])
        placed: list[Placed | None] = [None] * len(new)
        fresh: dict[tuple[str, str, str], int] = {}
        waiting: list[int] = []
        repeats: list[tuple[int, int]] = []
        for place, job in enumerate(new):
            names = _names(job)
            there = next((known[name] for name in names if name in known), None)
            twin = next((fresh[name] for name in names if name in fresh), None)
            if there is not None:
                placed[place] = _deduplicated(job, *there)
            elif twin is not None:
                repeats.append((place, twin))
            else:
                waiting.append(place)
                fresh |= dict.fromkeys(names, place)
        numbers = self._add([new[place] for place in waiting], now)
        for place, number in zip(waiting, numbers, strict=True):
            placed[place] = Placed(number, request_hash=new[place].request_hash)
        self._take_names(new, waiting, placed, now)
        for place, twin in repeats:
            original = placed[twin]
            assert original is not None
            placed[place] = _deduplicated(new[place], original.number, new[twin].request_hash)
        return [where for where in placed if where is not None]

    def _known(self, new: Sequence[NewJob]) -> dict[tuple[str, str, str], tuple[int, str]]:
        wanted = sorted({name for job in new for name in _names(job)})
        found: dict[tuple[str, str, str], tuple[int, str]] = {}
        for scope, owner in sorted({name[:2] for name in wanted}):
            texts = [name[2] for name in wanted if name[:2] == (scope, owner)]
            for start in range(0, len(texts), CHUNK):
                query = select(keys.c.name, keys.c.job_id, keys.c.request_hash).where(
                    keys.c.scope == scope, keys.c.owner == owner, keys.c.name.in_(texts[start : start + CHUNK])
                )
                for name, number, request_hash in self.connection.execute(query):
                    found[scope, owner, name] = (number, request_hash)
        return found

    def _add(self, new: Sequence[NewJob], now: datetime) -> list[int]:
        if not new:
            return []
        rows = [dict(zip(INSERT_COLUMNS, new_job_row(job, now), strict=True)) for job in new]
        if self.connection.dialect.insert_executemany_returning_sort_by_parameter_order:
            statement = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)
            return [row[0] for row in self.connection.execute(statement, rows)]
        answers = (self.connection.execute(insert(jobs).values(row)) for row in rows)
        return [answer.inserted_primary_key[0] for answer in answers]  # type: ignore[index]

    def _take_names(
        self, new: Sequence[NewJob], waiting: Sequence[int], placed: list[Placed | None], now: datetime
    ) -> None:
        """Claim the names of fresh jobs; whoever lost a race for one becomes the winner's duplicate."""
        mine = {name: place for place in waiting for name in _names(new[place])}
        if not mine:
            return
        rows = []
        for name, place in sorted(mine.items()):
            where = placed[place]
            assert where is not None
            rows.append({"scope": name[0], "owner": name[1], "name": name[2], "job_id": where.number,
                         "request_hash": new[place].request_hash if name[0] == "key" else "",
                         "created_at": micros(now)})  # fmt: skip
        self._insert_or_ignore(rows)
        for name, (number, request_hash) in self._known([new[place] for place in waiting]).items():
            place = mine[name]
            where = placed[place]
            assert where is not None
            if where.number != number and not where.deduplicated:
                self._withdraw(where.number)
                placed[place] = _deduplicated(new[place], number, request_hash)

    def _withdraw(self, number: int) -> None:
        self.connection.execute(delete(jobs).where(jobs.c.id == number))
        self.connection.execute(delete(keys).where(keys.c.job_id == number))

    def _insert_or_ignore(self, rows: list[dict[str, Any]]) -> None:
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        names = list(rows[0])
        told = ", ".join(f":{name}" for name in names)
        self.connection.execute(text(f"{before} horae_keys ({', '.join(names)}) VALUES ({told}) {behind}"), rows)


def _names(job: NewJob) -> list[tuple[str, str, str]]:
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
    return cast(column, Text).contains(json.dumps(tag, ensure_ascii=False), autoescape=True)
