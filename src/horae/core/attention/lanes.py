"""The rows of a lane: the lane, its tasks, waits, events, facts, and the lines of its journal.

Contexts, payloads and data are kept as the text they came as, so that they go back byte by byte. The journal names
them by digest: it can prove what was there without repeating it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import datetime
from typing import Any, Literal

from horae.core.attention.directives import Effect
from horae.core.attention.facts import MERGED, Fact, FactKind
from horae.core.attention.numbers import task_name
from horae.core.attention.task import Phase, TaskState, Weighed
from horae.core.audit.chain import GENESIS, hash_link
from horae.core.dataclass import dataclass
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import decode, name
from horae.core.jobs.reasons import Reason
from horae.core.time.instants import iso
from horae.errors import InvalidName

WaitState = Literal["open", "event", "timeout", "cancelled"]
WaitKind = Literal["event", "confirm", "backoff", "sleep", "task", "tasks", "budget"]  # tasks: every one of them
EventState = Literal["pending", "used", "late", "expired", "dropped"]
DIGESTED = frozenset({"payload", "context", "intent", "result", "data", "about", "note"})
# Field names of rows that the journal spells differently. Stored journals are hashed and compared with the tables, so a
# name in them never changes.
IN_JOURNAL = {"stack_index": "place"}


ADDRESSED = frozenset({"tasks", "events", "waits", "confirmations", "control", "journal", "at", "stream"})


def lane_name(text: str) -> str:
    """Return a valid name of a lane; refuse one that contains a path which the service has below every lane."""
    taken = next((part for part in name(text, "lane", 200).split("/")[1:] if part in ADDRESSED), None)
    if taken is not None:
        raise InvalidName("lane_name_taken", name=text, taken=taken)
    return text


@dataclass(frozen=True, slots=True)
class Lane:
    """One agent's attention."""

    name: str
    number: int = 0
    owner: str = SYSTEM
    epoch: int = 0  # raised by every new driver; an older one's commits change nothing
    driver: str | None = None
    leased_until: datetime | None = None
    seq: int = 0  # of the last line of the journal
    override: str | None = None  # what an operator forbids, as JSON
    rules: str | None = None  # what becomes of events, as its last driver said, as JSON
    created_at: datetime | None = None
    kinds: str | None = None  # the kinds of tasks that its last driver knew, as JSON; None: all

    @property
    def known_kinds(self) -> list[str] | None:
        """The kinds of tasks that the driver has a cognition for; None: all."""
        return None if self.kinds is None else list(decode(self.kinds))

    def knows(self, task: Task) -> bool:
        """Return whether the driver has a cognition for the task; one of older code may not."""
        known = self.known_kinds
        return known is None or task.kind in known

    def explain(self, task: Task) -> Task:
        """Return the task as people see it: one that the driver leaves alone carries the reason."""
        if task.state not in ("ready", "suspended") or self.knows(task):
            return task
        return replace(task, reason=left_alone(task.kind).text)

    def is_driven(self, now: datetime) -> bool:
        return self.leased_until is not None and self.leased_until > now


def left_alone(kind: str) -> Reason:
    """Say why a task waits in the backlog or on the stack, although its turn may have come."""
    return Reason("left_alone", "left_alone", {"kind": kind})


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of attention."""

    number: int
    lane: int
    kind: str
    state: TaskState
    base: int
    payload: str = "{}"
    phase: Phase = "think"
    context: str | None = None
    note: str | None = None
    key: str | None = None
    created_at: datetime | None = None
    start_at: datetime | None = None
    ready_since: datetime | None = None
    due_by: datetime | None = None
    expires_at: datetime | None = None
    stack_index: int | None = None
    turn: int = 0
    step: int = 0
    intent: str | None = None
    effect: Effect | None = None
    holds: bool = False
    held_since: datetime | None = None
    cancel_requested: bool = False
    clean_up: int | None = None  # steps left to a task that was asked to end gracefully
    errors: int = 0
    crashes: int = 0
    result: str | None = None
    reason: str | None = None
    start_job: int | None = None
    deadline_job: int | None = None
    parent: int | None = None  # the task that started it, and whose end cancels it
    charged: str | None = None  # what the open turn or step has taken from budgets, as JSON

    @property
    def id(self) -> str:
        return task_name(self.number)

    @property
    def focused_lane(self) -> int | None:
        """The lane, while this is the task that runs in it."""
        return self.lane if self.state == "running" else None

    @property
    def weighed(self) -> Weighed:
        return Weighed(
            self.number, self.state, self.base, self.ready_since, self.due_by, self.stack_index, self.phase, self.holds,
            self.cancel_requested and self.clean_up is None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskWait:
    """One key that a task waits for, until a deadline."""

    number: int
    lane: int
    task: int
    key: str
    kind: WaitKind
    state: WaitState
    deadline: datetime
    opened_at: datetime
    job: int | None = None
    closed_at: datetime | None = None
    event: int | None = None
    intent: str | None = None
    intent_hash: str | None = None
    grant: str | None = None
    granted_at: datetime | None = None
    used_at: datetime | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something the outside said."""

    number: int
    lane: int
    key: str
    state: EventState
    posted_at: datetime
    data: str = "{}"
    event_id: str | None = None
    reason: str | None = None
    task: int | None = None
    closed_at: datetime | None = None
    actor: str = SYSTEM


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact on its way to cognition; ``turn`` is the one that consumed it.

    ``about`` is empty where an older Horae stored the fact: what it added is then among the data.
    """

    number: int
    lane: int
    task: int
    kind: FactKind
    at: datetime
    data: str = "{}"
    turn: int | None = None
    about: str | None = None

    @property
    def fact(self) -> Fact:
        """The fact as cognition sees it."""
        data = decode(self.data)
        if self.about is not None:
            return Fact(self.kind, self.at, data, decode(self.about))
        added = [name for name in MERGED.get(self.kind, ()) if name in data]
        return Fact(self.kind, self.at, data, {name: data.pop(name) for name in added})


Kept = Task | TaskWait | Event | StoredFact
LIVE: dict[str, tuple[str, ...]] = {
    "task": ("created", "ready", "running", "waiting", "suspended"), "wait": ("open",), "event": ("pending",)
}  # fmt: skip
TABLES: dict[str, type[Any]] = {"task": Task, "wait": TaskWait, "event": Event, "fact": StoredFact}


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the journal: what changed, why, and under which control."""

    lane: int
    seq: int
    at: datetime
    cause: str
    task: int | None = None
    before: str | None = None
    after: str | None = None
    changes: Sequence[Any] = ()  # [table, number, {field: value}]
    details: Mapping[str, Any] = field(default_factory=dict)
    control: str = ""
    epoch: int = 0
    hash: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """What was alive in a lane after a line of its journal: the fold up to there, without what had ended."""

    lane: int
    seq: int
    rows: int
    tables: Mapping[str, Mapping[int, Mapping[str, Any]]]


# -- the journal: record, fold, chain ------------------------------------------------------------------------------


def plain(name: str, value: Any) -> Any:
    """Return a field as the journal writes it."""
    if value is None or (isinstance(value, bool | int | str) and name not in DIGESTED):
        return value
    if isinstance(value, datetime):
        return iso(value)
    return digest(value)


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def picture(kept: Kept) -> dict[str, Any]:
    """Return all fields of a row, under the names and in the form that the journal stores."""
    return {IN_JOURNAL.get(each.name, each.name): plain(each.name, getattr(kept, each.name)) for each in fields(kept)}


def change(table: str, before: Kept | None, after: Kept) -> list[Any] | None:
    """Return what is new about a row; None when nothing is."""
    now = picture(after)
    was = {} if before is None else picture(before)
    new = {name: value for name, value in now.items() if before is None or was[name] != value}
    return [table, after.number, new] if new else None


Folded = dict[str, dict[int, dict[str, Any]]]


def fold(lines: Iterable[Line], before: Picture | Folded | None = None) -> Folded:
    """Return the tables as the journal tells them; with what was *before* as the lines after that do."""
    known = {} if before is None else before.tables if isinstance(before, Picture) else before
    folded: Folded = {table: {number: dict(row) for number, row in known.get(table, {}).items()} for table in TABLES}
    for line in lines:
        for table, number, new in line.changes:
            folded[table].setdefault(int(number), {}).update(new)
    return folded


def is_over(table: str, row: Mapping[str, Any]) -> bool:
    """Return whether a folded row has ended: no later line is about it, so that the lane goes on without it."""
    if table == "fact":
        return row.get("turn") is not None
    return row.get("state") not in LIVE[table]


def alive(folded: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> Folded:
    """Return the rows that have not ended, and what those that have not ended may still need."""
    tasks = {number for number, row in folded["task"].items() if not is_over("task", row)}
    return {
        table: {
            number: dict(row)
            for number, row in rows.items()
            if not is_over(table, row) and (table in ("task", "event") or row.get("task") in tasks)
        }
        for table, rows in folded.items()
    }


def as_of(folded: Folded, last: Line | None) -> Folded:
    """Return what was alive after the last line, and what that line itself ended."""
    found = alive(folded)
    for table, number, _ in () if last is None else last.changes:
        row = folded[table][int(number)]
        if "number" in row:  # a row that had ended before the picture is known in part only
            found[table][int(number)] = row
    return found


def hash_line(previous: str, line: Line) -> str:
    """Return the hash of a line: it holds every line before it in place."""
    body = {
        "lane": line.lane, "seq": line.seq, "at": iso(line.at), "cause": line.cause, "task": line.task,
        "before": line.before, "after": line.after, "changes": list(line.changes), "told": dict(line.details),
        "control": line.control, "epoch": line.epoch,
    }  # fmt: skip
    return hash_link(previous, body)


def complaints(lines: Sequence[Line], tables: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> list[str]:
    """List what is wrong with a whole journal: gaps, a broken chain, or tables that differ from it.

    Lines that have not been sealed yet have no hash; only the last ones may lack it.
    """
    found, previous, unsealed = list[str](), GENESIS, False
    for expected, line in enumerate(lines, 1):
        if line.seq != expected:
            found.append(f"line {expected} is missing: the next one is {line.seq}")
            break
        if line.hash is None:
            unsealed = True
        elif unsealed:
            found.append(f"line {line.seq} is sealed although one before it is not")
        elif line.hash != hash_line(previous, line):
            found.append(f"line {line.seq} was changed after it was sealed")
        previous = line.hash or previous
    for table, rows in fold(lines).items():
        real = tables.get(table, {})
        found += [
            f"{table} {number} is in the journal and not in the store" for number in sorted(set(rows) - set(real))
        ]
        found += [
            f"{table} {number} is in the store and not in the journal" for number in sorted(set(real) - set(rows))
        ]
        for number in sorted(set(rows) & set(real)):
            different = sorted(name for name, value in real[number].items() if rows[number].get(name) != value)
            if different:
                found.append(f"{table} {number} differs from the journal in {', '.join(different)}")
    return found
