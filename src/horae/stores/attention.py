"""Lanes and what they keep: rows to values and back. Every change of a lane happens behind the lock of its row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, insert, select, text, update

from horae.core.instants import instant, micros
from horae.core.lanes import TABLES as TOLD
from horae.core.lanes import Event, Kept, Lane, Line, StoredFact, Task, TaskWait
from horae.errors import Conflict
from horae.stores.dialects import BY_NAME
from horae.stores.rows import at, to_micros
from horae.stores.tables import events, facts, journal, lanes, tasks, waits

K = TypeVar("K", Task, TaskWait, Event, StoredFact)
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


class Attention:
    """The lanes of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # -- lanes ---------------------------------------------------------------------------------------------------

    def lane(self, name: str, owner: str, *, lock: bool = False) -> Lane | None:
        query = select(lanes).where(lanes.c.owner == owner, lanes.c.name == name)
        row = self.connection.execute(query.with_for_update() if lock else query).mappings().first()
        return None if row is None else _lane(row)

    def lane_by_number(self, number: int, *, lock: bool = False) -> Lane | None:
        query = select(lanes).where(lanes.c.id == number)
        row = self.connection.execute(query.with_for_update() if lock else query).mappings().first()
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
        }
        self.connection.execute(update(lanes).where(lanes.c.id == lane.number).values(values))

    # -- what a lane keeps ---------------------------------------------------------------------------------------

    def add(self, kept: K) -> K:
        """Store a new row; answers with its number in it."""
        row = _row(kept)
        del row["id"]
        done = self.connection.execute(insert(TABLES[type(kept)]), row)
        assert done.inserted_primary_key is not None
        values = {each.name: getattr(kept, each.name) for each in fields(kept)}
        return type(kept)(**{**values, "number": int(done.inserted_primary_key[0])})

    def save(self, kept: Kept) -> None:
        table = TABLES[type(kept)]
        done = self.connection.execute(update(table).where(table.c.id == kept.number).values(_row(kept)))
        if done.rowcount != 1:
            raise Conflict(f"{type(kept).__name__} {kept.number} is gone; look again.")

    def task(self, number: int) -> Task | None:
        return next(iter(self._find(Task, tasks.c.id == number)), None)

    def task_by_key(self, lane: int, key: str) -> Task | None:
        return next(iter(self._find(Task, tasks.c.lane_id == lane, tasks.c.task_key == key)), None)

    def focus(self, lane: int) -> Task | None:
        """The one that runs, if any does."""
        return next(iter(self._find(Task, tasks.c.focus == lane)), None)

    def live_tasks(self, lane: int) -> list[Task]:
        return self._find(Task, tasks.c.lane_id == lane, tasks.c.state.in_(LIVE))

    def tasks(self, lane: int, *, states: Iterable[str] = (), limit: int, before: int | None = None) -> list[Task]:
        """Newest first, a page at a time."""
        wanted = [tasks.c.lane_id == lane]
        if told := tuple(states):
            wanted.append(tasks.c.state.in_(told))
        if before is not None:
            wanted.append(tasks.c.id < before)
        query = select(tasks).where(*wanted).order_by(tasks.c.id.desc()).limit(limit)
        return [_kept(Task, row) for row in self.connection.execute(query).mappings()]

    def wait(self, number: int) -> TaskWait | None:
        return next(iter(self._find(TaskWait, waits.c.id == number)), None)

    def waits_of(self, task: int, *, only_open: bool = True) -> list[TaskWait]:
        found = self._find(TaskWait, waits.c.task_id == task)
        return [each for each in found if each.state == "open"] if only_open else found

    def open_waits(self, lane: int) -> list[TaskWait]:
        return self._find(TaskWait, waits.c.lane_id == lane, waits.c.state == "open")

    def waits_for(self, lane: int, key: str) -> list[TaskWait]:
        """Every wait for a key, the oldest first."""
        return self._find(TaskWait, waits.c.lane_id == lane, waits.c.wait_key == key)

    def event(self, number: int) -> Event | None:
        return next(iter(self._find(Event, events.c.id == number)), None)

    def event_by_id(self, lane: int, event_id: str) -> Event | None:
        return next(iter(self._find(Event, events.c.lane_id == lane, events.c.event_id == event_id)), None)

    def pending_events(self, lane: int, key: str | None = None, *, limit: int = 1000) -> list[Event]:
        """The mailbox, the oldest first."""
        wanted = [events.c.lane_id == lane, events.c.state == "pending"]
        if key is not None:
            wanted.append(events.c.event_key == key)
        query = select(events).where(*wanted).order_by(events.c.id).limit(limit)
        return [_kept(Event, row) for row in self.connection.execute(query).mappings()]

    def new_facts(self, task: int) -> list[StoredFact]:
        """What cognition has not been told yet, in order."""
        return self._find(StoredFact, facts.c.task_id == task, facts.c.turn.is_(None))

    def everything(self, lane: int) -> dict[str, list[Kept]]:
        """All rows of a lane, for the verification of its journal."""
        return {
            "task": list(self._find(Task, tasks.c.lane_id == lane)),
            "wait": list(self._find(TaskWait, waits.c.lane_id == lane)),
            "event": list(self._find(Event, events.c.lane_id == lane)),
            "fact": list(self._find(StoredFact, facts.c.lane_id == lane)),
        }

    def _find(self, kind: type[K], *wanted: Any) -> list[K]:
        table = TABLES[kind]
        query = select(table).where(*wanted).order_by(table.c.id)
        return [_kept(kind, row) for row in self.connection.execute(query).mappings()]

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
        self.connection.execute(insert(journal), row)

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

    def seal(self, lane: int, seq: int, hash_text: str) -> None:
        mine = (journal.c.lane_id == lane, journal.c.seq == seq, journal.c.hash.is_(None))
        self.connection.execute(update(journal).where(*mine).values(hash=hash_text))


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
    )


def _row(kept: Kept) -> dict[str, Any]:
    names = RENAMED[type(kept)]
    row: dict[str, Any] = {}
    for each in fields(kept):
        value = getattr(kept, each.name)
        if each.name in INSTANTS:
            value = to_micros(value)
        elif each.name in FLAGS:
            value = int(value)
        row[names.get(each.name, each.name)] = value
    if isinstance(kept, Task):
        row["focus"] = kept.lane if kept.state == "running" else None
    return row


def _kept(kind: type[K], row: Mapping[Any, Any]) -> K:
    names = RENAMED[kind]
    values: dict[str, Any] = {}
    for each in fields(kind):
        value = row[names.get(each.name, each.name)]
        if each.name in INSTANTS:
            try:
                value = at(value)
            except (TypeError, OverflowError):
                raise ValueError(f"{each.name} of {TABLES[kind].name} {row['id']} is not an instant") from None
        elif each.name in FLAGS:
            value = bool(value)
        values[each.name] = value
    return kind(**values)


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
