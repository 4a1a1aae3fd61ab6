"""Public values of attention: lanes, their tasks, waits, events and journals."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any, ClassVar

from horae.api.values import Get, to_public
from horae.core.attention.lanes import EventState, WaitKind, WaitState, left_alone
from horae.core.attention.numbers import task_name
from horae.core.attention.task import Phase, TaskState
from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import decode
from horae.core.values import PYDANTIC
from horae.words.languages import Language

# Of each core value: fields that are public under another name, and fields that are not public.
RENAMED = {
    "Lane": {"leased_until": "driven_until"},
    "Task": {"number": "id", "base": "priority"},
    "TaskWait": {"number": "id", "intent": "arguments"},
    "Event": {"number": "id"},
    "Line": dict[str, str](),
}
HIDDEN = {
    "Lane": {"number", "override", "rules", "kinds"},  # `override` is public as `control`
    "Task": {
        "lane", "stack_index", "intent", "effect", "holds", "held_since", "clean_up", "errors", "crashes", "start_job",
        "deadline_job", "charged",
    },
    # A grant is for the agent alone.
    "TaskWait": {"lane", "job", "event", "grant", "granted_at", "used_at"},
    "Event": {"lane", "data", "closed_at", "actor"},
    "Line": {"lane"},
}  # fmt: skip
LONGEST_GOAL = 4000


def task_id(number: int | None) -> str | None:
    return None if number is None else task_name(number)


def _decode(text: str | None) -> Any:
    return None if text is None else decode(text)


def _goal(payload: str) -> str | None:
    if '"goal"' not in payload:  # so that large payloads of others are not decoded for nothing
        return None
    found = decode(payload)
    goal = found.get("goal") if isinstance(found, dict) else None
    return goal[:LONGEST_GOAL] if isinstance(goal, str) else None


def _intent(wait: Any) -> dict[str, Any]:
    found: dict[str, Any] = decode(wait.intent or "{}")
    return found


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One agent's attention; ``seq`` is the last line of its journal, ``epoch`` grows with every new driver."""

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {"driven_until": lambda lane: lane.leased_until}

    name: str
    owner: str = "system"
    driver: str | None = None
    driven_until: datetime | None = None
    epoch: int = 0
    seq: int = 0
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task as it stands, without its payload, context and result, which may be large.

    ``goal`` is what its payload calls so: what shall be achieved, in plain words. ``turn`` counts the decisions about
    it, ``step`` the actions that were begun; ``note`` is a cue that the agent left for coming back to it; ``reason``
    says why it failed, was cancelled, or is left alone; ``parent`` is the task that started it.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "priority": lambda task: task.base,
        "goal": lambda task: _goal(task.payload),
        "parent": lambda task: task_id(task.parent),
    }

    id: str
    kind: str
    state: TaskState
    phase: Phase = "think"
    priority: int = 0
    goal: str | None = None
    key: str | None = None
    note: str | None = None
    turn: int = 0
    step: int = 0
    cancel_requested: bool = False
    reason: str | None = None
    created_at: datetime | None = None
    start_at: datetime | None = None
    ready_since: datetime | None = None
    due_by: datetime | None = None
    expires_at: datetime | None = None
    parent: str | None = None

    def reason_in(self, language: Language) -> str | None:
        """Return the reason in a language: a sentence of ours can be translated, what an agent wrote stays as it is."""
        is_left_alone = self.reason is not None and self.state in ("ready", "suspended")
        return left_alone(self.kind).in_words(language) if is_left_alone else self.reason


@dataclass(frozen=True, kw_only=True)
class TaskDetail(Task):
    """A task with all that it is about; ``context`` is what the agent keeps with it."""

    DERIVED: ClassVar[dict[str, Get]] = Task.DERIVED | {
        "payload": lambda task: decode(task.payload),
        "context": lambda task: _decode(task.context),
        "result": lambda task: _decode(task.result),
    }

    payload: Any = None
    context: Any = None
    result: Any = None


@dataclass(frozen=True, kw_only=True)
class AddedTask(TaskDetail):
    """The task that now stands for a request; ``deduplicated`` when its key was known."""

    deduplicated: bool = False


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The key that a task waits for, and its deadline.

    The kind is ``event``, ``backoff`` (a rest after an error) or ``confirm``: a person must answer. Then ``action`` and
    ``arguments`` say what is asked, ``cites`` name the governed objects that it rests on and ``why`` says which of
    them cannot be relied on now; ``intent_hash`` binds an approval to all of it, and ``approved`` is the answer.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "id": lambda wait: wait.number,
        "task": lambda wait: task_id(wait.task),
        "action": lambda wait: _intent(wait).get("action"),
        "arguments": lambda wait: _intent(wait).get("arguments", {}),
        "cites": lambda wait: tuple(_intent(wait).get("cites", ())),
        "why": lambda wait: tuple(_intent(wait).get("why", ())),
        "approved": lambda wait: None if wait.decided_by is None else wait.grant is not None,
    }

    id: int
    task: str
    key: str
    kind: WaitKind
    state: WaitState
    deadline: datetime
    opened_at: datetime
    closed_at: datetime | None = None
    action: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    cites: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    intent_hash: str | None = None
    approved: bool | None = None
    decided_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Confirmation(Wait):
    """An action that needs a person's approval, and the kind of task that asks for it."""

    task_kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class LaneConfirmation(Confirmation):
    """An action that needs a person's approval, and in whose lane."""

    lane: str = ""
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event and its state: used, late, dropped by its rule, expired, or pending, which means kept.

    ``task`` is the task that it created, woke or reached.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "id": lambda event: event.number,
        "task": lambda event: task_id(event.task),
    }

    id: int
    key: str
    state: EventState
    posted_at: datetime
    event_id: str | None = None
    task: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class PostedEvent(Event):
    """An event that was posted; ``deduplicated`` when its id was known."""

    deduplicated: bool = False


@dataclass(frozen=True, kw_only=True)
class WaitingTask:
    """A task, and all that it waits for; the first to come wins."""

    task: Task
    waits: tuple[Wait, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaneCounts:
    """The number of tasks, where a list shows only the first ones."""

    suspended: int = 0
    ready: int = 0
    waiting: int = 0
    created: int = 0


@dataclass(frozen=True, kw_only=True)
class LaneSummary:
    """A lane in numbers: its focus, how much lies on the stack, in the backlog and waits, and its last step.

    ``waits`` counts what is waited for, ``confirmations`` those of them that a person must answer.
    """

    __pydantic_config__ = PYDANTIC

    lane: Lane
    focus: Task | None = None
    counts: LaneCounts = LaneCounts()
    waits: int = 0
    confirmations: int = 0
    last_at: datetime | None = None
    last_cause: str | None = None
    last_task: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskFact:
    """Something that a task was told: ``data`` came from outside, ``about`` is what Horae adds to it.

    ``turn`` is the turn that took it up; None while it lies ready for the next one.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "id": lambda fact: fact.number,
        "data": lambda fact: dict(fact.fact.data),
        "about": lambda fact: dict(fact.fact.about),
    }

    id: int
    kind: str
    at: datetime
    turn: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TaskStory:
    """A task, all that it waits or waited for, and what it was told, each the newest first."""

    __pydantic_config__ = PYDANTIC

    task: TaskDetail
    waits: tuple[Wait, ...] = ()
    facts: tuple[TaskFact, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaneControl:
    """The restrictions that an operator sets for an agent; None: no restriction."""

    auto_continue: bool | None = None
    allow_interrupt: bool | None = None
    confirm_everything: bool | None = None
    must_confirm: tuple[str, ...] = ()


def control_of(switches: Any) -> LaneControl:
    return LaneControl(**{**switches, "must_confirm": tuple(switches.get("must_confirm", ()))})


@dataclass(frozen=True, kw_only=True)
class LaneDetail:
    """A lane as of one moment.

    ``stack`` holds interrupted tasks, the first comes back first; ``backlog`` ready ones in the order of service;
    ``created`` those whose time has not come.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "waiting": lambda seen: tuple(
            WaitingTask(task=to_public(Task, task), waits=to_public(tuple[Wait, ...], waits))
            for task, waits in seen.waiting
        ),
        "counts": lambda seen: LaneCounts(
            suspended=len(seen.stack), ready=len(seen.backlog), waiting=len(seen.waiting), created=len(seen.created)
        ),
        "control": lambda seen: control_of(seen.control),
    }

    lane: Lane
    at: datetime
    focus: Task | None = None
    stack: tuple[Task, ...] = ()
    backlog: tuple[Task, ...] = ()
    waiting: tuple[WaitingTask, ...] = ()
    created: tuple[Task, ...] = ()
    counts: LaneCounts = LaneCounts()
    control: LaneControl = LaneControl()


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """One line of a journal.

    ``changes`` are table, number and new values, texts by digest: they fold to the tables. ``control`` is the digest of
    what control allowed; ``hash`` holds all lines before it in place, and is None until it is sealed.
    """

    __pydantic_config__ = PYDANTIC
    DERIVED: ClassVar[dict[str, Get]] = {
        "task": lambda line: task_id(line.task),
        "details": lambda line: dict(line.details),
    }

    seq: int
    at: datetime
    cause: str
    task: str | None = None
    before: str | None = None
    after: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    changes: tuple[Any, ...] = ()
    control: str = ""
    epoch: int = 0
    hash: str | None = None


@dataclass(frozen=True, kw_only=True)
class VerifiedJournal:
    """Whether a journal has no gap, its chain holds, and it folds to the tables; the first hundred complaints."""

    DERIVED: ClassVar[dict[str, Get]] = {
        "sound": lambda found: found.is_sound,
        "complaints": lambda found: tuple(found.complaints[:100]),
    }

    lane: str
    sound: bool
    lines: int = 0
    sealed: int = 0
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PastLane:
    """A lane as it was after a line of its journal: rows by id or number, their texts by digest."""

    seq: int
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    waits: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


def past_lane(seq: int, tables: dict[str, dict[int, dict[str, Any]]]) -> PastLane:
    """Name the tables of a folded journal as people do."""
    rows = {f"{table}s": {str(number): row for number, row in found.items()} for table, found in tables.items()}
    rows["tasks"] = {task_name(int(number)): row for number, row in rows["tasks"].items()}
    return PastLane(seq=seq, **rows)
