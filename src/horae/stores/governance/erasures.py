"""Erase what can name a person: content, payloads, results, errors, notes, questions. Ids, states and times stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Text, cast, delete, exists, or_, select, union, update

from horae.core.attention.lanes import Event, Kept, StoredFact, Task, TaskWait
from horae.core.cluster.numbers import job_id
from horae.stores.declaration import Declaration
from horae.stores.tables.attention import EVENTS, FACTS, TASKS, WAITS, lanes
from horae.stores.tables.governance import decisions, evidence, objects, reviews, versions
from horae.stores.tables.jobs import jobs, ledger, runs, task_ledger
from horae.stores.tables.lines import lines
from horae.stores.tables.schedules import schedules
from horae.stores.tables.statistics import error_groups

ERASED = "erased"
AT_ONCE = 500
NO_VALUE = '{"value":null}'  # what a step is said to have returned: it must not run again
NO_JSON = "null"  # what a JSON column holds instead of a value that was erased
# Where texts of callers stand in attention.
TEXTS: dict[type[Any], tuple[Declaration[Any], tuple[str, ...]]] = {
    Task: (TASKS, ("payload", "context", "note", "intent", "result", "reason")),
    TaskWait: (WAITS, ("intent",)),
    Event: (EVENTS, ("data", "reason")),
    StoredFact: (FACTS, ("data", "about")),
}


class Erasures:
    """What erasure changes in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def object(self, number: int) -> None:
        """Erase the content of an object in every version with the key of its digest, and what evidence says."""
        said = {"content": None, "content_key": None, "digest": None, "snapshot": "{}"}
        self._change(versions, versions.c.object_number == number, said)
        self._change(evidence, evidence.c.object_number == number, {"reference": ERASED, "source": "", "note": None})
        named = {"subject": "", "subject_key": "", "fingerprint": None, "source": "", "opinions": None}
        self._change(objects, objects.c.id == number, named)

    def jobs_about(self, owner: str, kind: str, name: str) -> list[int]:
        about = [
            select(number).where(table.c.owner == owner, table.c.object_type == kind, table.c.object_id == name)
            for table, number in ((jobs, jobs.c.id), (runs, runs.c.job_id))
        ]
        return sorted(row[0] for row in self.connection.execute(union(*about)))

    def jobs(self, numbers: Sequence[int]) -> None:
        """Erase what jobs were given, returned and said when they failed."""
        for begin in range(0, len(numbers), AT_ONCE):
            some = numbers[begin : begin + AT_ONCE]
            self._empty_jobs([*some, *self._alerts(some)])
            grouped = error_groups.c.sample_job.in_(some)
            self._change(error_groups, grouped, {"title": ERASED, "message": ERASED, "raised_in": ""})

    def _empty_jobs(self, numbers: Sequence[int]) -> None:
        nothing = {"payload": NO_JSON, "progress": None, "checkpoint": None, "cancel_reason": None}
        self._change(jobs, jobs.c.id.in_(numbers), {**nothing, "last_error": None})
        self._change(runs, runs.c.job_id.in_(numbers), {**nothing, "error": None, "result": None})
        self.connection.execute(delete(lines).where(lines.c.job_id.in_(numbers)))
        self.steps(numbers)

    def steps(self, numbers: Sequence[int]) -> None:
        """Erase what steps of jobs have returned; none of them runs again."""
        self._change(ledger, ledger.c.job_id.in_(numbers), {"result": NO_VALUE})

    def steps_of_tasks(self, owner: str, needles: Sequence[str], tasks: Sequence[int] = ()) -> None:
        """Erase what steps of these tasks have returned, and of an owner's tasks where it contains one of the texts."""
        own = select(TASKS.table.c.id).where(
            TASKS.table.c.lane_id.in_(select(lanes.c.id).where(lanes.c.owner == owner))
        )
        said = cast(task_ledger.c.result, Text)
        hit = or_(*(said.contains(needle, autoescape=True) for needle in needles), task_ledger.c.task_id.in_(tasks))
        self._change(task_ledger, task_ledger.c.task_id.in_(own), {"result": NO_VALUE}, hit)

    def steps_of_jobs(self, owner: str, needles: Sequence[str]) -> None:
        """Erase what steps of an owner's jobs have returned where it contains one of the texts."""
        own = or_(*(
            exists().where(number == ledger.c.job_id, table.c.owner == owner)
            for table, number in ((jobs, jobs.c.id), (runs, runs.c.job_id))
        ))  # fmt: skip
        self._change(ledger, _has([ledger.c.result], needles), {"result": NO_VALUE}, own)

    def jobs_repeating(self, owner: str, handlers: Collection[str], needles: Sequence[str]) -> list[tuple[int, str]]:
        hit = _has([jobs.c.payload, jobs.c.progress, jobs.c.checkpoint, jobs.c.last_error], needles)
        query = select(jobs.c.id, jobs.c.state).where(jobs.c.owner == owner, jobs.c.handler.in_(handlers), hit)
        return [(row.id, row.state) for row in self.connection.execute(query.order_by(jobs.c.id))]

    def empty_history(self, owner: str, handlers: Collection[str], needles: Sequence[str], *, limit: int) -> int:
        """Of jobs that have ended, those that are dead and those in the history."""
        said = _has([runs.c.payload, runs.c.progress, runs.c.checkpoint, runs.c.error, runs.c.result], needles)
        ended = select(runs.c.job_id).where(runs.c.owner == owner, runs.c.handler.in_(handlers), said).distinct()
        numbers = list(self.connection.execute(ended.limit(limit)).scalars())
        numbers += [number for number, state in self.jobs_repeating(owner, handlers, needles) if state == "dead"]
        if numbers:
            self._empty_jobs(sorted(set(numbers)))
        return len(set(numbers))

    def schedules_repeating(self, owner: str, handlers: Collection[str], needles: Sequence[str]) -> list[str]:
        hit = _has([schedules.c.payload, schedules.c.title], needles)
        named = select(schedules.c.schedule_key).where(schedules.c.owner == owner, schedules.c.handler.in_(handlers))
        return list(self.connection.execute(named.where(hit)).scalars())

    def _alerts(self, numbers: Sequence[int]) -> list[int]:
        """Return the jobs that tell the operator of the death of these, with the error in it."""
        found = list[int]()
        for table, number in ((jobs, jobs.c.id), (runs, runs.c.job_id)):
            named = or_(*(table.c.idempotency_key.startswith(f"alert:job.dead:{job_id(each)}.") for each in numbers))
            found += self.connection.execute(select(number).where(named)).scalars().all()
        return sorted(set(found))

    def decisions(self, numbers: Collection[int]) -> None:
        """Erase what decisions were about; their outcomes and gates stay."""
        for some in _chunks(numbers):
            self._change(decisions, decisions.c.id.in_(some), {"action_text": ERASED, "reason": ERASED})

    def reviews(self, owner: str, number: int, decided: Collection[str]) -> None:
        """Erase the questions and notes of reviews about an object, or about these decisions."""
        nothing = {"question": None, "note": None}
        self._change(reviews, reviews.c.object_number == number, nothing)
        for some in _chunks(decided):
            self._change(reviews, reviews.c.owner == owner, nothing, reviews.c.decision_id.in_(some))

    def attention(self, owner: str, needles: Sequence[str], *, limit: int) -> list[Kept]:
        """Return rows of an owner's lanes whose texts contain one of these."""
        found: list[Kept] = []
        for declared, names in TEXTS.values():
            table = declared.table
            own = select(lanes.c.id).where(lanes.c.owner == owner)
            columns = [declared[name] for name in names]
            hit = or_(*(each.contains(needle, autoescape=True) for each in columns for needle in needles))
            query = select(*declared.select).where(table.c.lane_id.in_(own), hit).order_by(table.c.id).limit(limit)
            found += [declared.read(row) for row in self.connection.execute(query)]
        return found

    def _change(
        self, table: Table, where: ColumnElement[bool], values: dict[str, Any], *more: ColumnElement[bool]
    ) -> None:
        self.connection.execute(update(table).where(where, *more).values(values))


def _has(columns: Sequence[ColumnElement[Any]], needles: Sequence[str]) -> ColumnElement[bool]:
    texts = [cast(column, Text) for column in columns]
    return or_(*(each.contains(needle, autoescape=True) for each in texts for needle in needles))


def _chunks(values: Collection[Any]) -> list[Sequence[Any]]:
    known = sorted(set(values))
    return [known[begin : begin + AT_ONCE] for begin in range(0, len(known), AT_ONCE)]
