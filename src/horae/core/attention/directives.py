"""The answers of cognition and the results of actions: directives, facts, waits.

A directive carries the context to keep: any JSON, stored and given back as it is, never read by the runtime. A wait
without a finite timeout cannot be built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Never

from horae.core.attention.task import Policy, wait_span
from horae.core.governance.references import references
from horae.core.jobs.payloads import encode, label, name, true_or_false
from horae.errors import InvalidInput

FactKind = Literal[
    "started", "resumed", "interrupted", "event", "late_event", "timed_out", "confirmed", "denied", "action_ok",
    "action_failed", "action_partial", "action_unknown", "cancel_requested", "deadline_passed", "control_changed",
    "recovered", "steer", "hold_exceeded", "grant_refused",
]  # fmt: skip
# What Horae added to the data of a fact before it had a place of its own.
MERGED: Mapping[FactKind, tuple[str, ...]] = {
    "event": ("key", "event", "late_by"),
    "late_event": ("key", "event"),
    "steer": ("key", "event"),
    "action_ok": ("action", "step"),
    "action_partial": ("action", "step"),
    "action_failed": ("action", "step"),
    "action_unknown": ("action", "step", "key"),
}
Effect = Literal["once", "idempotent", "transactional"]
EFFECTS: tuple[Effect, ...] = ("once", "idempotent", "transactional")
MAX_NOTE = 500
MAX_KEYS = 20
UNBOUNDED = Policy(longest_wait=timedelta(days=36_500))  # a lane's own policy is applied when the wait is opened


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened; shown to cognition once.

    ``data`` is what the event or the action said, with every field as it came. ``about`` is what Horae adds: ``key``
    and ``event`` of an event, ``action`` and ``step`` of an action. ``fact["name"]`` looks in ``data`` first.
    """

    kind: FactKind
    at: datetime
    data: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.data[name] if name in self.data else self.about[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.data.get(name, self.about.get(name, default))

    @property
    def action(self) -> str | None:
        """The action that this fact comes from, or that a person has decided about; None for other facts."""
        return (self.about or self.data).get("action")

    @property
    def key(self) -> str | None:
        """The key of the event that this fact brings, or the key of the effect of an action whose end is unknown."""
        return (self.about or self.data).get("key")

    @property
    def grant(self) -> str:
        """What a confirmation permits: exactly one intent, once."""
        return str(self.data["grant"])


@dataclass(frozen=True, slots=True)
class FactList:
    """The facts since the last turn, in the order in which they happened."""

    facts: tuple[Fact, ...] = ()

    def of(self, kind: FactKind, action: str | None = None, *, key: str | None = None) -> list[Fact]:
        """List all of a kind; with *action* only those of that action, with *key* only events of that key."""
        return [
            fact
            for fact in self.facts
            if fact.kind == kind and action in (None, fact.action) and key in (None, fact.key)
        ]

    def last(self, kind: FactKind, action: str | None = None, *, key: str | None = None) -> Fact | None:
        """Return the latest of those that :meth:`of` lists."""
        found = self.of(kind, action, key=key)
        return found[-1] if found else None

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)


# -- what cognition answers ----------------------------------------------------------------------------------------


class Directive:
    """The answer of cognition: what to do next. Each carries the context to keep and, optionally, a note."""

    is_final: ClassVar[bool] = False
    context: Any
    note: str | None


def _check_storable(directive: Directive) -> None:
    encode(directive.context, "context")
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
        context: Any = None,
        note: str | None = None,
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
    """Park until one of these keys is posted or the time is up, whichever comes first."""

    on: str | Sequence[str]
    timeout: timedelta | float
    context: Any = None
    note: str | None = None

    def __post_init__(self) -> None:
        wait_keys(self.on)
        wait_span(self.timeout, UNBOUNDED)
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Proceed(Directive):
    """Run exactly what was approved, once."""

    grant: str
    context: Any = None
    note: str | None = None

    def __post_init__(self) -> None:
        label(self.grant, "grant", 100)
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Yield(Directive):
    """A safe point without an action; with *release* equals may take a turn."""

    release: bool = False
    context: Any = None
    note: str | None = None

    def __post_init__(self) -> None:
        true_or_false(self.release, "release")
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Done(Directive):
    """The task is completed."""

    is_final: ClassVar[bool] = True
    result: Any = None
    context: Any = None
    note: str | None = None

    def __post_init__(self) -> None:
        encode(self.result, "result")
        _check_storable(self)


@dataclass(frozen=True, slots=True)
class Fail(Directive):
    """The task has failed, and this is why."""

    is_final: ClassVar[bool] = True
    reason: str
    context: Any = None
    note: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise InvalidInput("failure_without_reason")
        encode(self.reason, "reason")
        _check_storable(self)


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
    timeout: timedelta | float


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


def step_key(lane: str, task: int, step: int) -> str:
    """Return the key of an action's effect: the same for the same step, however often it is tried."""
    return hashlib.sha256(json.dumps([lane, task, step]).encode()).hexdigest()[:32]


def intent_hash(intent: Mapping[str, Any]) -> str:
    """Return what an approval is bound to: another action or another argument is another intent."""
    return hashlib.sha256(json.dumps(intent, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
