"""Lanes and what they keep: rows to values and back. Every change of a lane happens behind the lock of its row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, func, insert, select, text, update

from horae.core.attention.lanes import LIVE as LIVE_STATES
from horae.core.attention.lanes import Event, Kept, Lane, StoredFact, Task, TaskWait
from horae.core.jobs.machinery import MACHINERY
from horae.core.time.instants import micros
from horae.errors import Conflict
from horae.ports.attention import LaneTally
from horae.stores.cluster.numbered import NUMBER
from horae.stores.databases.dialects import BY_NAME
from horae.stores.declaration import Declaration
from horae.stores.journal import JournalRows, read_line
from horae.stores.tables.attention import (
    EVENTS,
    FACTS,
    JOURNAL,
    LANES,
    TASKS,
    WAITS,
    events,
    facts,
    journal,
    lanes,
    tasks,
    waits,
)
from horae.stores.tables.jobs import jobs

if TYPE_CHECKING:
    from horae.stores.cluster.shard import Entrance

K = TypeVar("K", Task, TaskWait, Event, StoredFact)
KEPT: dict[type[Any], Declaration[Any]] = {Task: TASKS, TaskWait: WAITS, Event: EVENTS, StoredFact: FACTS}
LIVE = LIVE_STATES["task"]


def _by(declared: Declaration[Any], *names: str, also: ColumnElement[bool] | None = None) -> Select[Any]:
    """Select rows by the values of columns, the oldest first. Built once: building costs more than asking."""
    table = declared.table
    query = select(*declared.select).where(*(table.c[name] == bindparam(name) for name in names))
    return (query if also is None else query.where(also)).order_by(table.c.id)


INSERTS = {kind: insert(kept.table) for kind, kept in KEPT.items()}
UPDATES = {kind: update(kept.table).where(kept.table.c.id == bindparam("which")) for kind, kept in KEPT.items()}
TASK = _by(TASKS, "id")
TASK_BY_KEY = _by(TASKS, "lane_id", "task_key")
FOCUS = _by(TASKS, "focus")
LIVE_TASKS = _by(TASKS, "lane_id", also=tasks.c.state.in_(LIVE))
SUSPENDED = _by(TASKS, "lane_id", also=tasks.c.state == "suspended")
CHILDREN = _by(TASKS, "parent_id", also=tasks.c.state.in_(LIVE))
COUNT_LIVE = select(func.count()).where(tasks.c.lane_id == bindparam("lane_id"), tasks.c.state.in_(LIVE))
BEGUN_LATE = tasks.c.expires_at <= bindparam("now")
EXPIRED = _by(
    TASKS, "lane_id", also=tasks.c.state.in_(("created", "ready")) & tasks.c.expires_at.is_not(None) & BEGUN_LATE
).limit(bindparam("most"))
OLDEST_READY = (
    _by(TASKS, "lane_id", also=(tasks.c.state == "ready") & (tasks.c.ready_since <= bindparam("since")))
    .order_by(None)
    .order_by(tasks.c.ready_since)
    .limit(bindparam("most"))
)
WAIT = _by(WAITS, "id")
WAITS_OF_TASK = _by(WAITS, "task_id")
OPEN_WAITS_OF_TASK = _by(WAITS, "task_id", also=waits.c.state == "open")
OPEN_WAITS = _by(WAITS, "lane_id", also=waits.c.state == "open")
OPEN_WAITS_FOR = _by(WAITS, "lane_id", "wait_key", also=waits.c.state == "open")
OPEN_WAITS_LIKE = _by(
    WAITS,
    "lane_id",
    also=(waits.c.state == "open") & (waits.c.wait_key >= bindparam("low")) & (waits.c.wait_key < bindparam("high")),
).limit(bindparam("most"))
LAST_WAIT_FOR = _by(WAITS, "lane_id", "wait_key", "state").order_by(None).order_by(waits.c.id.desc()).limit(1)
EVENT = _by(EVENTS, "id")
EVENT_BY_ID = _by(EVENTS, "lane_id", "event_id")
PENDING = _by(EVENTS, "lane_id", also=events.c.state == "pending").limit(bindparam("most"))
PENDING_BY_KEY = _by(
    EVENTS, "lane_id", "event_key", also=(events.c.state == "pending") & (events.c.posted_at >= bindparam("since"))
).limit(bindparam("most"))
NEW_FACTS = _by(FACTS, "task_id", also=facts.c.turn.is_(None))
LAST_FACTS = _by(FACTS, "task_id").order_by(None).order_by(facts.c.id.desc()).limit(bindparam("most"))
ALL = {kind: _by(kept, "lane_id") for kind, kept in KEPT.items()}
LANE = select(*LANES.select).where(lanes.c.owner == bindparam("owner"), lanes.c.name == bindparam("name"))
LANE_LOCKED = LANE.with_for_update()
LANE_BY_NUMBER = select(*LANES.select).where(lanes.c.id == bindparam("id"))
LANE_BY_NUMBER_LOCKED = LANE_BY_NUMBER.with_for_update()
SAVE_LANE = update(lanes).where(lanes.c.id == bindparam("which"))


def _ready(*also: ColumnElement[bool], kinds: bool) -> Select[Any]:
    """Select a ready task that has not expired; with *kinds* only one of these."""
    stays = tasks.c.expires_at.is_(None) | (tasks.c.expires_at > bindparam("now"))
    query = select(*TASKS.select).where(tasks.c.lane_id == bindparam("lane_id"), tasks.c.state == "ready", stays, *also)
    return query.where(tasks.c.kind.in_(bindparam("kinds", expanding=True))) if kinds else query


def _highest(kinds: bool) -> Select[Any]:
    """Select the highest base below a bound, and of its tasks the one that has been ready longest."""
    within = _ready(tasks.c.base < bindparam("below"), kinds=kinds).with_only_columns(tasks.c.base)
    top = within.order_by(tasks.c.base.desc()).limit(1).scalar_subquery()
    return _ready(tasks.c.base == top, kinds=kinds).order_by(tasks.c.ready_since, tasks.c.id).limit(1)


def _first_due(kinds: bool) -> Select[Any]:
    """Select the earliest deadline among the tasks of a base that have been ready since an instant."""
    old = tasks.c.ready_since <= bindparam("since")
    query = _ready(tasks.c.base == bindparam("base"), tasks.c.due_by.is_not(None), old, kinds=kinds)
    return query.order_by(tasks.c.due_by, tasks.c.ready_since, tasks.c.id).limit(1)


HIGHEST = {kinds: _highest(kinds) for kinds in (False, True)}
FIRST_DUE = {kinds: _first_due(kinds) for kinds in (False, True)}


class Attention(JournalRows):
    """The lanes of one transaction."""

    def __init__(self, connection: Connection, entrance: Entrance | None = None) -> None:
        super().__init__(connection)
        self._entrance = entrance
        self._owners: dict[int, str] = {}  # of the lanes that were read; what is added to one is kept with its owner

    # -- lanes ---------------------------------------------------------------------------------------------------

    def lane(self, name: str, owner: str, *, lock: bool = False) -> Lane | None:
        return self._lane(LANE_LOCKED if lock else LANE, {"owner": owner, "name": name})

    def lane_by_number(self, number: int, *, lock: bool = False) -> Lane | None:
        return self._lane(LANE_BY_NUMBER_LOCKED if lock else LANE_BY_NUMBER, {"id": number})

    def _lane(self, query: Select[Any], parameters: dict[str, Any]) -> Lane | None:
        row = self.connection.execute(query, parameters).first()
        if row is None:
            return None
        found = LANES.read(row)
        self._owners[found.number] = found.owner
        return found

    def lanes(self, owner: str | None, *, limit: int, after: int) -> list[Lane]:
        query = select(*LANES.select).where(lanes.c.id > after).order_by(lanes.c.id).limit(limit)
        query = query if owner is None else query.where(lanes.c.owner == owner)
        return [LANES.read(row) for row in self.connection.execute(query)]

    def tallies(self, numbers: Collection[int]) -> dict[int, LaneTally]:
        """Return how each of these lanes stands, in four statements for all of them."""
        chosen = sorted(numbers)
        if not chosen:
            return {}
        live: dict[int, dict[str, int]] = {number: {} for number in chosen}
        kinds: dict[int, dict[str, int]] = {number: {} for number in chosen}
        by_state = select(tasks.c.lane_id, tasks.c.state, func.count()).group_by(tasks.c.lane_id, tasks.c.state)
        for lane, state, count in self.connection.execute(
            by_state.where(tasks.c.lane_id.in_(chosen), tasks.c.state.in_(LIVE))
        ):
            live[lane][state] = int(count)
        by_kind = select(waits.c.lane_id, waits.c.kind, func.count()).group_by(waits.c.lane_id, waits.c.kind)
        for lane, kind, count in self.connection.execute(
            by_kind.where(waits.c.lane_id.in_(chosen), waits.c.state == "open")
        ):
            kinds[lane][kind] = int(count)
        focused = {each.lane: each for each in self._find(Task, select(*TASKS.select).where(tasks.c.focus.in_(chosen)))}
        ends = (journal.c.lane_id == lanes.c.id) & (journal.c.seq == lanes.c.seq)
        last = select(*JOURNAL.select).join(lanes, ends).where(lanes.c.id.in_(chosen))
        lines = {line.lane: line for line in map(read_line, self.connection.execute(last))}
        return {
            number: LaneTally(live[number], kinds[number], focused.get(number), lines.get(number)) for number in chosen
        }

    def make_lane(self, name: str, owner: str, now: datetime) -> None:
        """Make a lane unless it exists."""
        before, behind = BY_NAME[self.connection.dialect.name].insert_ignore
        row = {"owner": owner, "name": name, "epoch": 0, "seq": 0, "created_at": micros(now), **self._number(owner)}
        names, values = ", ".join(row), ", ".join(f":{each}" for each in row)
        self.connection.execute(text(f"{before} {lanes.name} ({names}) VALUES ({values}) {behind}"), row)

    def _number(self, owner: str) -> dict[str, int]:
        """Return the number of a new row where it carries a shard; the database gives it otherwise."""
        return {} if self._entrance is None else {NUMBER: self._entrance.number(self.connection, owner)[0]}

    def save_lane(self, lane: Lane) -> None:
        self.connection.execute(SAVE_LANE, {**LANES.changes(lane), "which": lane.number})

    # -- what a lane keeps ---------------------------------------------------------------------------------------

    def add(self, kept: K) -> K:
        """Store a new row; return it with its number."""
        number = {} if self._entrance is None else self._number(self._owners[kept.lane])
        done = self.connection.execute(INSERTS[type(kept)], {**KEPT[type(kept)].row(kept), **number})
        assert done.inserted_primary_key is not None
        return replace(kept, number=int(done.inserted_primary_key[0]))

    def save(self, kept: Kept) -> None:
        row = KEPT[type(kept)].row(kept)
        done = self.connection.execute(UPDATES[type(kept)], {**row, "which": kept.number})
        if done.rowcount != 1:
            raise Conflict("row_gone", kind=type(kept).__name__, number=kept.number)

    def task(self, number: int) -> Task | None:
        return self._first(Task, TASK, id=number)

    def task_by_key(self, lane: int, key: str) -> Task | None:
        return self._first(Task, TASK_BY_KEY, lane_id=lane, task_key=key)

    def focus(self, lane: int) -> Task | None:
        """Return the one that runs, if any does."""
        return self._first(Task, FOCUS, focus=lane)

    def live_tasks(self, lane: int) -> list[Task]:
        return self._find(Task, LIVE_TASKS, lane_id=lane)

    def count_live(self, lane: int) -> int:
        return int(self.connection.execute(COUNT_LIVE, {"lane_id": lane}).scalar_one())

    def suspended(self, lane: int) -> list[Task]:
        return self._find(Task, SUSPENDED, lane_id=lane)

    def next_ready(
        self, lane: int, now: datetime, *, kinds: Collection[str] | None = None, below: int = 100
    ) -> Task | None:
        """Return, of the ready tasks with the highest base below a bound, the one that has been ready longest."""
        some = {} if kinds is None else {"kinds": list(kinds)}
        query = HIGHEST[kinds is not None]
        return self._first(Task, query, lane_id=lane, now=micros(now), below=below, **some)

    def first_due(
        self, lane: int, base: int, now: datetime, *, since: datetime, kinds: Collection[str] | None = None
    ) -> Task | None:
        """Return, of the tasks of a base that are ready since an instant, the one with the earliest deadline."""
        some = {} if kinds is None else {"kinds": list(kinds)}
        query = FIRST_DUE[kinds is not None]
        return self._first(Task, query, lane_id=lane, now=micros(now), base=base, since=micros(since), **some)

    def expired(self, lane: int, now: datetime, *, limit: int) -> list[Task]:
        """Return tasks that have not begun and may not begin any more."""
        return self._find(Task, EXPIRED, lane_id=lane, now=micros(now), most=limit)

    def oldest_ready(self, lane: int, since: datetime, *, limit: int) -> list[Task]:
        """Return the tasks that have been ready longest, those that have been so since an instant."""
        return self._find(Task, OLDEST_READY, lane_id=lane, since=micros(since), most=limit)

    def children(self, task: int) -> list[Task]:
        """Return the tasks that a task has started and that have not ended."""
        return self._find(Task, CHILDREN, parent_id=task)

    def tasks(self, lane: int, *, states: Iterable[str] = (), limit: int, before: int | None = None) -> list[Task]:
        """Return a page of tasks, newest first."""
        conditions = [tasks.c.lane_id == lane]
        if listed := tuple(states):
            conditions.append(tasks.c.state.in_(listed))
        if before is not None:
            conditions.append(tasks.c.id < before)
        query = select(*TASKS.select).where(*conditions).order_by(tasks.c.id.desc()).limit(limit)
        return self._find(Task, query)

    def wait(self, number: int) -> TaskWait | None:
        return self._first(TaskWait, WAIT, id=number)

    def waits_of(self, task: int, *, only_open: bool = True) -> list[TaskWait]:
        return self._find(TaskWait, OPEN_WAITS_OF_TASK if only_open else WAITS_OF_TASK, task_id=task)

    def open_waits(self, lane: int) -> list[TaskWait]:
        return self._find(TaskWait, OPEN_WAITS, lane_id=lane)

    def open_waits_for(self, lane: int, key: str) -> list[TaskWait]:
        """Return the open waits for a key, the oldest first."""
        return self._find(TaskWait, OPEN_WAITS_FOR, lane_id=lane, wait_key=key)

    def open_waits_like(self, lane: int, prefix: str, *, limit: int) -> list[TaskWait]:
        """Return open waits whose keys begin with a prefix of ASCII, the oldest first."""
        high = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        return self._find(TaskWait, OPEN_WAITS_LIKE, lane_id=lane, low=prefix, high=high, most=limit)

    def last_wait_for(self, lane: int, key: str) -> TaskWait | None:
        """Return the wait for a key that was opened last and is closed."""
        states = ("event", "timeout", "cancelled")
        found = [self._first(TaskWait, LAST_WAIT_FOR, lane_id=lane, wait_key=key, state=state) for state in states]
        return max((each for each in found if each is not None), key=lambda each: each.number, default=None)

    def waits_without_job(self, lane: int | None, *, limit: int) -> list[TaskWait]:
        """Return open waits whose job is missing, dead, or in another queue."""
        query = select(*WAITS.select).where(waits.c.state == "open", ~_is_kept(waits.c.job_id))
        query = query if lane is None else query.where(waits.c.lane_id == lane)
        return self._find(TaskWait, query.order_by(waits.c.id).limit(limit))

    def tasks_without_job(self, lane: int | None, *, limit: int) -> list[Task]:
        """Return tasks with a start or deadline ahead whose job is not there, as with waits."""
        starts = (tasks.c.state == "created") & tasks.c.start_job.is_not(None) & ~_is_kept(tasks.c.start_job)
        ends = tasks.c.deadline_job.is_not(None) & ~_is_kept(tasks.c.deadline_job)
        query = select(*TASKS.select).where(tasks.c.state.in_(LIVE), starts | ends)
        query = query if lane is None else query.where(tasks.c.lane_id == lane)
        return self._find(Task, query.order_by(tasks.c.id).limit(limit))

    def event(self, number: int) -> Event | None:
        return self._first(Event, EVENT, id=number)

    def event_by_id(self, lane: int, event_id: str) -> Event | None:
        return self._first(Event, EVENT_BY_ID, lane_id=lane, event_id=event_id)

    def pending_events(
        self, lane: int, key: str | None = None, *, limit: int = 1000, since: datetime | None = None
    ) -> list[Event]:
        """Return the mailbox, the oldest first; of a *key* only what was posted *since* an instant."""
        if key is None:
            return self._find(Event, PENDING, lane_id=lane, most=limit)
        after = 0 if since is None else micros(since)
        return self._find(Event, PENDING_BY_KEY, lane_id=lane, event_key=key, most=limit, since=after)

    def new_facts(self, task: int) -> list[StoredFact]:
        """Return the facts that cognition has not seen yet, in order."""
        return self._find(StoredFact, NEW_FACTS, task_id=task)

    def facts(self, task: int, *, limit: int) -> list[StoredFact]:
        """Return the last facts about a task, the newest first."""
        return self._find(StoredFact, LAST_FACTS, task_id=task, most=limit)

    def everything(self, lane: int) -> dict[str, list[Kept]]:
        """Return all rows of a lane, for the verification of its journal."""
        return {
            "task": list(self._find(Task, ALL[Task], lane_id=lane)),
            "wait": list(self._find(TaskWait, ALL[TaskWait], lane_id=lane)),
            "event": list(self._find(Event, ALL[Event], lane_id=lane)),
            "fact": list(self._find(StoredFact, ALL[StoredFact], lane_id=lane)),
        }

    def _find(self, kind: type[K], query: Select[Any], **parameters: Any) -> list[K]:
        kept: Declaration[K] = KEPT[kind]
        return [_read(kept, row) for row in self.connection.execute(query, parameters)]

    def _first(self, kind: type[K], query: Select[Any], **parameters: Any) -> K | None:
        return next(iter(self._find(kind, query, **parameters)), None)


def _is_kept(number: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether a job of Horae's own will come due; one that runs, in whatever queue, is about to."""
    kept = (jobs.c.state == "running") | ((jobs.c.state == "queued") & (jobs.c.queue == MACHINERY))
    return select(jobs.c.id).where(jobs.c.id == number, kept).exists()


def _read(kept: Declaration[K], row: Row[Any]) -> K:
    try:
        return kept.read(row)
    except (TypeError, OverflowError):
        raise ValueError(f"{kept.unreadable(row)} of {kept.table.name} {row.id} is not an instant") from None
