"""Lanes and what they keep: rows to values and back. Every change of a lane happens behind the lock of its row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, insert, select, text, update

from horae.core.instants import instant, micros
from horae.core.lanes import TABLES as TOLD
from horae.core.lanes import Event, Kept, Lane, Line, StoredFact, Task, TaskWait
from horae.core.machinery import MACHINERY
from horae.errors import Conflict
from horae.stores.dialects import BY_NAME
from horae.stores.rows import at, to_micros
from horae.stores.tables import events, facts, jobs, journal, lanes, tasks, waits

K = TypeVar("K", Task, TaskWait, Event, StoredFact)
Plan = tuple[tuple[str, int, Callable[[Any], Any] | None], ...]
TABLES: dict[type[Any], Table] = {Task: tasks, TaskWait: waits, Event: events, StoredFact: facts}
RENAMED: dict[type[Any], dict[str, str]] = {
    Task: {"number": "id", "lane": "lane_id", "key": "task_key"},
    TaskWait: {"number": "id", "lane": "lane_id", "task": "task_id", "key": "wait_key", "job": "job_id",
               "grant": "grant_key"},
    Event: {"number": "id", "lane": "lane_id", "task": "task_id", "key": "event_key"},
    StoredFact: {"number": "id", "lane": "lane_id", "task": "task_id"},
}  # fmt: skip
INSTANTS = frozenset(
    {"created_at", "start_at", "ready_since", "due_by", "expires_at", "held_since", "deadline", "opened_at",
     "closed_at", "granted_at", "used_at", "posted_at", "at"}
)  # fmt: skip
FLAGS = frozenset({"holds", "cancel_requested"})
LIVE = ("created", "ready", "running", "waiting", "suspended")


def _plan(kind: type[Any]) -> Plan:
    """For each field its column's place in a row, and what turns one into the other."""
    places = list(TABLES[kind].c.keys())
    names = RENAMED[kind]
    return tuple(
        (
            each.name,
            places.index(names.get(each.name, each.name)),
            at if each.name in INSTANTS else bool if each.name in FLAGS else None,
        )
        for each in fields(kind)
    )


def _by(table: Table, *names: str, also: ColumnElement[bool] | None = None) -> Select[Any]:
    """Rows by the values of columns, the oldest first. Built once: building costs more than asking."""
    query = select(table).where(*(table.c[name] == bindparam(name) for name in names))
    return (query if also is None else query.where(also)).order_by(table.c.id)


PLANS = {kind: _plan(kind) for kind in TABLES}
INSERTS = {kind: insert(table) for kind, table in TABLES.items()}
UPDATES = {kind: update(table).where(table.c.id == bindparam("which")) for kind, table in TABLES.items()}
TASK = _by(tasks, "id")
TASK_BY_KEY = _by(tasks, "lane_id", "task_key")
FOCUS = _by(tasks, "focus")
LIVE_TASKS = _by(tasks, "lane_id", also=tasks.c.state.in_(LIVE))
WAIT = _by(waits, "id")
WAITS_OF_TASK = _by(waits, "task_id")
OPEN_WAITS = _by(waits, "lane_id", also=waits.c.state == "open")
WAITS_FOR = _by(waits, "lane_id", "wait_key")
EVENT = _by(events, "id")
EVENT_BY_ID = _by(events, "lane_id", "event_id")
PENDING = _by(events, "lane_id", also=events.c.state == "pending").limit(bindparam("most"))
PENDING_BY_KEY = _by(events, "lane_id", "event_key", also=events.c.state == "pending").limit(bindparam("most"))
NEW_FACTS = _by(facts, "task_id", also=facts.c.turn.is_(None))
ALL = {kind: _by(table, "lane_id") for kind, table in TABLES.items()}
WRITE = insert(journal)
SEAL = update(journal).where(
    journal.c.lane_id == bindparam("lane"), journal.c.seq == bindparam("line"), journal.c.hash.is_(None)
)
LANE = select(lanes).where(lanes.c.owner == bindparam("owner"), lanes.c.name == bindparam("name"))
LANE_LOCKED = LANE.with_for_update()
LANE_BY_NUMBER = select(lanes).where(lanes.c.id == bindparam("id"))
LANE_BY_NUMBER_LOCKED = LANE_BY_NUMBER.with_for_update()
SAVE_LANE = update(lanes).where(lanes.c.id == bindparam("which"))


class Attention:
    """The lanes of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # -- lanes ---------------------------------------------------------------------------------------------------

    def lane(self, name: str, owner: str, *, lock: bool = False) -> Lane | None:
        return self._lane(LANE_LOCKED if lock else LANE, {"owner": owner, "name": name})

    def lane_by_number(self, number: int, *, lock: bool = False) -> Lane | None:
        return self._lane(LANE_BY_NUMBER_LOCKED if lock else LANE_BY_NUMBER, {"id": number})

    def _lane(self, query: Select[Any], told: dict[str, Any]) -> Lane | None:
        row = self.connection.execute(query, told).mappings().first()
        return None if row is None else _lane(row)

    def lanes(self, owner: str | None, *, limit: int, after: int) -> list[Lane]:
        query = select(lanes).where(lanes.c.id > after).order_by(lanes.c.id).limit(limit)
        query = query if owner is None else query.where(lanes.c.owner == owner)
        return [_lane(row) for row in self.connection.execute(query).mappings()]

    def make_lane(self, name: str, owner: str, now: datetime) -> None:
        """Make it unless it is there."""
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        sql = f"{before} {lanes.name} (owner, name, epoch, seq, created_at) VALUES (:owner, :name, 0, 0, :at) {behind}"
        self.connection.execute(text(sql), {"owner": owner, "name": name, "at": micros(now)})

    def save_lane(self, lane: Lane) -> None:
        values = {
            "epoch": lane.epoch,
            "driver": lane.driver,
            "leased_until": to_micros(lane.leased_until),
            "seq": lane.seq,
            "override": lane.override,
            "rules": lane.rules,
            "kinds": lane.kinds,
        }
        self.connection.execute(SAVE_LANE, {**values, "which": lane.number})

    # -- what a lane keeps ---------------------------------------------------------------------------------------

    def add(self, kept: K) -> K:
        """Store a new row; answers with its number in it."""
        row = _row(kept)
        del row["id"]
        done = self.connection.execute(INSERTS[type(kept)], row)
        assert done.inserted_primary_key is not None
        return replace(kept, number=int(done.inserted_primary_key[0]))

    def save(self, kept: Kept) -> None:
        row = _row(kept)
        del row["id"]
        done = self.connection.execute(UPDATES[type(kept)], {**row, "which": kept.number})
        if done.rowcount != 1:
            raise Conflict(f"{type(kept).__name__} {kept.number} is gone; look again.")

    def task(self, number: int) -> Task | None:
        return self._first(Task, TASK, id=number)

    def task_by_key(self, lane: int, key: str) -> Task | None:
        return self._first(Task, TASK_BY_KEY, lane_id=lane, task_key=key)

    def focus(self, lane: int) -> Task | None:
        """The one that runs, if any does."""
        return self._first(Task, FOCUS, focus=lane)

    def live_tasks(self, lane: int) -> list[Task]:
        return self._find(Task, LIVE_TASKS, lane_id=lane)

    def tasks(self, lane: int, *, states: Iterable[str] = (), limit: int, before: int | None = None) -> list[Task]:
        """Newest first, a page at a time."""
        wanted = [tasks.c.lane_id == lane]
        if told := tuple(states):
            wanted.append(tasks.c.state.in_(told))
        if before is not None:
            wanted.append(tasks.c.id < before)
        query = select(tasks).where(*wanted).order_by(tasks.c.id.desc()).limit(limit)
        return self._find(Task, query)

    def wait(self, number: int) -> TaskWait | None:
        return self._first(TaskWait, WAIT, id=number)

    def waits_of(self, task: int, *, only_open: bool = True) -> list[TaskWait]:
        found = self._find(TaskWait, WAITS_OF_TASK, task_id=task)
        return [each for each in found if each.state == "open"] if only_open else found

    def open_waits(self, lane: int) -> list[TaskWait]:
        return self._find(TaskWait, OPEN_WAITS, lane_id=lane)

    def waits_for(self, lane: int, key: str) -> list[TaskWait]:
        """Every wait for a key, the oldest first."""
        return self._find(TaskWait, WAITS_FOR, lane_id=lane, wait_key=key)

    def waits_without_job(self, lane: int | None, *, limit: int) -> list[TaskWait]:
        """Open waits whose job is not there, is dead, or waits in somebody else's queue."""
        query = select(waits).where(waits.c.state == "open", ~_is_kept(waits.c.job_id))
        query = query if lane is None else query.where(waits.c.lane_id == lane)
        return self._find(TaskWait, query.order_by(waits.c.id).limit(limit))

    def tasks_without_job(self, lane: int | None, *, limit: int) -> list[Task]:
        """The same for tasks whose start or deadline is still to come."""
        starts = (tasks.c.state == "created") & tasks.c.start_job.is_not(None) & ~_is_kept(tasks.c.start_job)
        ends = tasks.c.deadline_job.is_not(None) & ~_is_kept(tasks.c.deadline_job)
        query = select(tasks).where(tasks.c.state.in_(LIVE), starts | ends)
        query = query if lane is None else query.where(tasks.c.lane_id == lane)
        return self._find(Task, query.order_by(tasks.c.id).limit(limit))

    def event(self, number: int) -> Event | None:
        return self._first(Event, EVENT, id=number)

    def event_by_id(self, lane: int, event_id: str) -> Event | None:
        return self._first(Event, EVENT_BY_ID, lane_id=lane, event_id=event_id)

    def pending_events(self, lane: int, key: str | None = None, *, limit: int = 1000) -> list[Event]:
        """The mailbox, the oldest first."""
        if key is None:
            return self._find(Event, PENDING, lane_id=lane, most=limit)
        return self._find(Event, PENDING_BY_KEY, lane_id=lane, event_key=key, most=limit)

    def new_facts(self, task: int) -> list[StoredFact]:
        """What cognition has not been told yet, in order."""
        return self._find(StoredFact, NEW_FACTS, task_id=task)

    def everything(self, lane: int) -> dict[str, list[Kept]]:
        """All rows of a lane, for the verification of its journal."""
        return {
            "task": list(self._find(Task, ALL[Task], lane_id=lane)),
            "wait": list(self._find(TaskWait, ALL[TaskWait], lane_id=lane)),
            "event": list(self._find(Event, ALL[Event], lane_id=lane)),
            "fact": list(self._find(StoredFact, ALL[StoredFact], lane_id=lane)),
        }

    def _find(self, kind: type[K], query: Select[Any], **told: Any) -> list[K]:
        plan = PLANS[kind]
        return [_kept(kind, plan, row) for row in self.connection.execute(query, told)]

    def _first(self, kind: type[K], query: Select[Any], **told: Any) -> K | None:
        return next(iter(self._find(kind, query, **told)), None)

    # -- the journal ---------------------------------------------------------------------------------------------

    def write(self, line: Line) -> None:
        row = {
            "lane_id": line.lane,
            "seq": line.seq,
            "at": micros(line.at),
            "cause": line.cause,
            "task_id": line.task,
            "state_before": line.before,
            "state_after": line.after,
            "changes": json.dumps(list(line.changes), ensure_ascii=False),
            "told": json.dumps(dict(line.told), ensure_ascii=False),
            "control": line.control,
            "epoch": line.epoch,
            "hash": line.hash,
        }
        self.connection.execute(WRITE, row)

    def lines(self, lane: int, *, since: int = 0, limit: int, task: int | None = None) -> list[Line]:
        """The lines after *since*, in order."""
        query = select(journal).where(journal.c.lane_id == lane, journal.c.seq > since)
        query = query if task is None else query.where(journal.c.task_id == task)
        rows = self.connection.execute(query.order_by(journal.c.seq).limit(limit)).mappings()
        return [_line(row) for row in rows]

    def last_sealed(self, lane: int) -> Line | None:
        query = select(journal).where(journal.c.lane_id == lane, journal.c.hash.is_not(None))
        row = self.connection.execute(query.order_by(journal.c.seq.desc()).limit(1)).mappings().first()
        return None if row is None else _line(row)

    def unsealed(self, limit: int) -> list[int]:
        """Lanes whose last line is not sealed."""
        last = (journal.c.lane_id == lanes.c.id) & (journal.c.seq == lanes.c.seq)
        query = select(lanes.c.id).join(journal, last).where(journal.c.hash.is_(None)).order_by(lanes.c.id)
        return list(self.connection.execute(query.limit(limit)).scalars())

    def seal(self, lane: int, hashes: Mapping[int, str]) -> None:
        """Give lines their hashes, by their numbers."""
        told = [{"lane": lane, "line": seq, "hash": hash_text} for seq, hash_text in hashes.items()]
        if told:
            self.connection.execute(SEAL, told)


def _is_kept(number: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a job of Horae's own will come due; one that runs, in whatever queue, is about to."""
    kept = (jobs.c.state == "running") | ((jobs.c.state == "queued") & (jobs.c.queue == MACHINERY))
    return select(jobs.c.id).where(jobs.c.id == number, kept).exists()


def _lane(row: Mapping[Any, Any]) -> Lane:
    return Lane(
        name=row["name"],
        number=row["id"],
        owner=row["owner"],
        epoch=row["epoch"],
        driver=row["driver"],
        leased_until=at(row["leased_until"]),
        seq=row["seq"],
        override=row["override"],
        rules=row["rules"],
        created_at=instant(row["created_at"]),
        kinds=row["kinds"],
    )


def _row(kept: Kept) -> dict[str, Any]:
    names = RENAMED[type(kept)]
    row: dict[str, Any] = {}
    for name, _, reads in PLANS[type(kept)]:
        value = getattr(kept, name)
        row[names.get(name, name)] = value if reads is None else to_micros(value) if reads is at else int(value)
    if isinstance(kept, Task):
        row["focus"] = kept.lane if kept.state == "running" else None
    return row


def _kept(kind: type[K], plan: Plan, row: Row[Any]) -> K:
    try:
        return kind(*[row[place] if reads is None else reads(row[place]) for _, place, reads in plan])
    except (TypeError, OverflowError):
        raise ValueError(f"{_unreadable(plan, row)} of {TABLES[kind].name} {row.id} is not an instant") from None


def _unreadable(plan: Plan, row: Row[Any]) -> str:
    for name, place, reads in plan:
        try:
            _ = reads and reads(row[place])
        except (TypeError, OverflowError):
            return name
    raise AssertionError("every column can be read")


def _line(row: Mapping[Any, Any]) -> Line:
    """What nobody here can have written is named, so that whoever verifies a journal can say where it is."""
    try:
        return Line(
            lane=row["lane_id"],
            seq=row["seq"],
            at=instant(row["at"]),
            cause=row["cause"],
            task=row["task_id"],
            before=row["state_before"],
            after=row["state_after"],
            changes=_changes(json.loads(row["changes"])),
            told=dict(json.loads(row["told"])),
            control=row["control"],
            epoch=row["epoch"],
            hash=row["hash"],
        )
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"line {row['seq']} is not what a journal holds") from None


def _changes(told: Any) -> list[Any]:
    for table, number, new in told:
        if table not in TOLD or not isinstance(number, int) or not isinstance(new, dict):
            raise ValueError(f"a change of {table} {number}")
    return list(told)
