"""The answers of cognition and the results of actions: directives and waits.

A directive carries the context to keep: any JSON, stored and given back as it is, never read by the runtime. A wait
without a finite timeout cannot be built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Final, Literal, Never, get_args

from horae.core.attention.task import Policy, base_priority, wait_span
from horae.core.dataclass import dataclass
from horae.core.governance.references import references
from horae.core.jobs.payloads import encode, label, name, true_or_false
from horae.core.time.spans import Span
from horae.errors import InvalidInput

Effect = Literal["once", "idempotent", "transactional"]
EFFECTS: tuple[Effect, ...] = ("once", "idempotent", "transactional")
MAX_NOTE = 500
MAX_KEYS = 20
MAX_TASKS = 100  # that one directive starts or waits for
Since = Literal["ever", "task", "now"]
SINCE: tuple[Since, ...] = get_args(Since)
UNBOUNDED = Policy(longest_wait=timedelta(days=36_500))  # a lane's own policy is applied when the wait is opened


# -- what cognition answers ----------------------------------------------------------------------------------------


class Keep:
    """The value of ``KEEP``: leave what is stored as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = Keep()


class Directive:
    """The answer of cognition: what to do next. Each carries a context and a note; left out, they stay as they are.

    ``context=None`` and ``note=None`` clear them.
    """

    is_final: ClassVar[bool] = False
    context: Any
    note: str | Keep | None


def _check_storable(directive: Directive) -> None:
    if directive.context is not KEEP:
        encode(directive.context, "context")
    if directive.note is KEEP:
        return
    encode(directive.note, "note")
    if directive.note is not None and (not isinstance(directive.note, str) or len(directive.note) > MAX_NOTE):
        raise InvalidInput("note_unreadable", most=MAX_NOTE)


class Act(Directive):
    """Run an action. Its intent is written before it runs; its facts come back in the next turn.

    *arguments* go to the action as they are, whatever their names. *cites* name the governed objects that the decision
    rests on, as ``memory:mem_ab12cd34ef56``.
    """

    __slots__ = ("action", "arguments", "cites", "context", "interruptible", "note")

    def __init__(
        self,
        action: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        cites: Sequence[str] = (),
        interruptible: bool = True,
        context: Any = KEEP,
        note: str | Keep | None = KEEP,
        **unknown: Never,
    ) -> None:
        self.action = name(action, "action")
        if unknown:
            raise InvalidInput("act_keyword_unknown", keyword=min(unknown), action=self.action)
        if arguments is not None and not isinstance(arguments, Mapping):
            raise InvalidInput("act_arguments_unreadable", given=type(arguments).__name__)
        self.arguments = dict(arguments or {})
        self.cites = tuple(str(each) for each in references(cites))
        self.interruptible = true_or_false(interruptible, "interruptible")
        self.context = context
        self.note = note
        encode(self.arguments, "arguments")
        _check_storable(self)

    @property
    def intent(self) -> dict[str, Any]:
        """What is written down, approved and done: the action, its arguments and what it cites."""
        cites = {"cites": list(self.cites)} if self.cites else {}
        return {"action": self.action, "arguments": self.arguments, **cites}


@dataclass(frozen=True, slots=True)
class Wait(Directive):
    """Park until one of these keys is posted or the time is up, whichever comes first.

    An event that came early counts too: one of *ever*, with ``since="task"`` only one that was posted after the task
    was added, with ``since="now"`` none.
    """

    on: str | Sequence[str]
    timeout: Span
    context: Any = KEEP
    note: str | Keep | None = KEEP
    since: Since = "ever"

    def __post_init__(self) -> None:
        wait_keys(self.on)
        wait_span(self.timeout, UNBOUNDED)
        if self.since not in SINCE:
            raise InvalidInput("choice_unknown", name="since", value=str(self.since), choices=list(SINCE))
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Sleep(Directive):
    """Park for a while; no event ends it."""

    duration: Span
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        wait_span(self.duration, UNBOUNDED)
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Join(Directive):
    """Park until tasks of this lane have ended, every one of them or the first, or the time is up."""

    tasks: str | Sequence[str]
    timeout: Span
    every: bool = True
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        task_ids(self.tasks)
        wait_span(self.timeout, UNBOUNDED)
        true_or_false(self.every, "every")
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Child:
    """A task that another one starts. Without a priority it has its parent's.

    It is cancelled when its parent ends before it, unless it is *detached*.
    """

    kind: str
    payload: Any = None
    priority: int | None = None
    key: str | None = None
    detached: bool = False

    def __post_init__(self) -> None:
        name(self.kind, "kind of task")
        encode(self.payload, "payload")
        if self.priority is not None:
            base_priority(self.priority)
        if self.key is not None:
            label(self.key, "key")
        true_or_false(self.detached, "detached")


@dataclass(frozen=True, slots=True)
class Start(Directive):
    """Start child tasks, each exactly once; with a *timeout* park until they have ended, or the time is up."""

    children: Child | Sequence[Child]
    timeout: Span | None = None
    every: bool = True
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        started = listed_children(self.children)
        if not 1 <= len(started) <= MAX_TASKS or not all(isinstance(each, Child) for each in started):
            raise InvalidInput("children_unreadable", most=MAX_TASKS)
        if self.timeout is not None:
            wait_span(self.timeout, UNBOUNDED)
        true_or_false(self.every, "every")
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Proceed(Directive):
    """Run exactly what was approved, once."""

    grant: str
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        label(self.grant, "grant", 100)
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Yield(Directive):
    """A safe point without an action; with *release* equals may take a turn."""

    release: bool = False
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        true_or_false(self.release, "release")
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Done(Directive):
    """The task is completed."""

    is_final: ClassVar[bool] = True
    result: Any = None
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        encode(self.result, "result")
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Fail(Directive):
    """The task has failed, and this is why."""

    is_final: ClassVar[bool] = True
    reason: str
    context: Any = KEEP
    note: str | Keep | None = KEEP

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise InvalidInput("failure_without_reason")
        encode(self.reason, "reason")
        _check_storable(self)


DIRECTIVES = ("Act", "Wait", "Sleep", "Join", "Start", "Proceed", "Yield", "Done", "Fail")  # as cognition writes them


# -- what actions return -------------------------------------------------------------------------------------------


class Facts:
    """The result of an action; partial when it stopped at a safe point inside longer work.

    Whether it can be stored is checked by the driver after the action: an error raised here would look as if the
    action had not happened.
    """

    __slots__ = ("data", "is_partial")

    def __init__(self, /, **data: Any) -> None:
        self.data = data
        self.is_partial = False

    @classmethod
    def partial(cls, /, **data: Any) -> Facts:
        made = cls(**data)
        made.is_partial = True
        return made


@dataclass(frozen=True, slots=True)
class Pending:
    """The action has begun something outside and must wait to hear of it; checked as :class:`Facts` are."""

    on: str | Sequence[str]
    timeout: Span


def check_answer(answer: Any, policy: Policy) -> Facts | Pending | None:
    """Return what an action answered, or refuse it in words: it cannot be read, kept or waited for."""
    if isinstance(answer, Facts):
        encode(answer.data, "facts")
    elif isinstance(answer, Pending):
        wait_keys(answer.on)
        wait_span(answer.timeout, policy)
    elif answer is not None:
        raise InvalidInput("action_answer_unreadable", given=type(answer).__name__)
    checked: Facts | Pending | None = answer
    return checked


def wait_keys(on: str | Sequence[str]) -> tuple[str, ...]:
    """Return the keys of a wait, each once."""
    if not isinstance(on, Sequence):
        raise InvalidInput("wait_keys_unreadable", given=type(on).__name__)
    keys = (on,) if isinstance(on, str) else tuple(dict.fromkeys(on))
    if not 1 <= len(keys) <= MAX_KEYS:
        raise InvalidInput("wait_keys_outside", count=len(keys), most=MAX_KEYS)
    return tuple(label(key, "wait key", 200) for key in keys)


def listed_children(children: Child | Sequence[Child]) -> tuple[Child, ...]:
    """Return the children that a directive starts, also where it names only one."""
    return (children,) if isinstance(children, Child) else tuple(children)


def task_ids(tasks: str | Sequence[str]) -> tuple[str, ...]:
    """Return the ids of tasks that are waited for, each once."""
    if not isinstance(tasks, Sequence):
        raise InvalidInput("joined_tasks_unreadable", most=MAX_TASKS)
    listed = (tasks,) if isinstance(tasks, str) else tuple(dict.fromkeys(tasks))
    if not 1 <= len(listed) <= MAX_TASKS or not all(isinstance(each, str) for each in listed):
        raise InvalidInput("joined_tasks_unreadable", most=MAX_TASKS)
    return listed


def step_key(lane: str, task: int, step: int) -> str:
    """Return the key of an action's effect: the same for the same step, however often it is tried."""
    return hashlib.sha256(json.dumps([lane, task, step]).encode()).hexdigest()[:32]


def intent_hash(intent: Mapping[str, Any]) -> str:
    """Return what an approval is bound to: another action or another argument is another intent."""
    return hashlib.sha256(json.dumps(intent, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
