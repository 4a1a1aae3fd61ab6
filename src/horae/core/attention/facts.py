"""Facts: what happened to a task since its last turn, as its cognition is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from horae.core.dataclass import dataclass

FactKind = Literal[
    "started", "resumed", "interrupted", "event", "late_event", "timed_out", "confirmed", "denied", "action_ok",
    "action_failed", "action_partial", "action_unknown", "cancel_requested", "deadline_passed", "control_changed",
    "recovered", "steer", "hold_exceeded", "grant_refused", "slept", "task_ended", "tasks_started", "budget_empty",
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
AWAITED, REPEATED = "awaited", "repeated"  # how a fact came to a task: it ended its wait, or its rule fired again
# Facts of these kinds are always the end of a wait.
ENDS_A_WAIT: frozenset[FactKind] = frozenset({"timed_out", "confirmed", "denied", "slept"})


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened; shown to cognition once.

    ``data`` is what the event or the action said, with every field as it came. ``about`` is what Horae adds: ``key``
    and ``event`` of an event and ``came``, the way it came, ``action`` and ``step`` of an action. ``fact["name"]``
    looks in ``data`` first.
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

    @property
    def is_awaited(self) -> bool:
        """Whether this is what the task waited for: its event, its tasks, an answer, or the end of its time."""
        return self.kind in ENDS_A_WAIT or self.about.get("came") == AWAITED

    @property
    def is_repeated(self) -> bool:
        """Whether the rule that made this task has fired again, and the task hears of it."""
        return self.about.get("came") == REPEATED


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

    @property
    def awaited(self) -> list[Fact]:
        """What this task waited for, whichever way the wait ended; empty in a turn that follows no wait."""
        return [fact for fact in self.facts if fact.is_awaited]

    @property
    def repeated(self) -> list[Fact]:
        """The events for which the rule of this task fired again."""
        return [fact for fact in self.facts if fact.is_repeated]

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)
