"""One agent, one focus: what a task of attention is, how it moves, and what deserves the focus next.

The runtime never reads what a task is about: choosing is a function of rows, clock and control, so that the same rows
give the same choice whatever the context says. A task is *running* (the focus), *ready* (the backlog), *suspended* (on
the stack), *waiting* (for something, and always with a deadline), *created* (its time has not come), or ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from horae.core.dataclass import dataclass
from horae.core.jobs.payloads import encode, label, name, true_or_false
from horae.core.machine import Machine
from horae.core.time.spans import span
from horae.errors import InvalidInput

TaskState = Literal["created", "ready", "running", "waiting", "suspended", "completed", "failed", "cancelled"]
Phase = Literal["think", "act", "gap"]

TASK: Machine[TaskState] = Machine(
    "task",
    "created",
    {
        ("created", "admitted"): "ready",
        ("created", "cancelled"): "cancelled",
        ("ready", "focused"): "running",
        ("ready", "cancelled"): "cancelled",
        ("running", "interrupted"): "suspended",
        ("running", "parked"): "waiting",
        ("running", "yielded"): "ready",
        ("running", "done"): "completed",
        ("running", "failed"): "failed",
        ("running", "cancelled"): "cancelled",
        ("waiting", "woken"): "ready",
        ("waiting", "cancelled"): "cancelled",
        ("suspended", "resumed"): "ready",
        ("suspended", "cancelled"): "cancelled",
    },
)
FINAL: tuple[TaskState, ...] = ("completed", "failed", "cancelled")
LOWEST, HIGHEST = 0, 99
NORMAL = 40


@dataclass(frozen=True, slots=True)
class Policy:
    """How a lane weighs its tasks. Aging lifts a task within its band and can never interrupt: the cap is below the
    margin, and interrupting looks at the base alone.
    """

    margin: int = 10  # by how much the base of an interrupter must exceed the focus's
    depth: int = 8  # how many may be suspended at once
    aging_cap: int = 9
    aging_every: timedelta = timedelta(minutes=5)
    longest_hold: timedelta = timedelta(minutes=5)
    longest_wait: timedelta = timedelta(days=30)
    turn_errors: int = 3
    max_turns: int = 10_000  # of one task; the next one fails it
    max_steps: int = 10_000
    max_tasks: int = 10_000  # of a lane that have not ended; with so many no task starts children
    crashes: int = 3
    clean_up_steps: int = 3
    starved_after: timedelta = timedelta(days=1)  # so long in the backlog, and the journal says so
    keep_events: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        for each in ("aging_every", "longest_hold", "longest_wait", "starved_after", "keep_events"):
            object.__setattr__(self, each, span(getattr(self, each)))
        if not 0 <= self.aging_cap < self.margin:
            raise InvalidInput("aging_cap_too_high", aging_cap=self.aging_cap, margin=self.margin)
        if self.depth < 1 or self.aging_every <= timedelta(0):
            raise InvalidInput("stack_without_room")
        if (
            min(self.turn_errors, self.crashes, self.max_turns, self.max_steps, self.max_tasks) < 1
            or self.clean_up_steps < 0
        ):
            raise InvalidInput("policy_counts_too_low")
        if min(self.longest_wait, self.keep_events) <= timedelta(0):
            raise InvalidInput("policy_times_too_short")


@dataclass(frozen=True, slots=True)
class Control:
    """The agent's control state: what is allowed now. One with invalid values cannot be built."""

    auto_continue: bool = True
    allow_interrupt: bool = True
    must_confirm: AbstractSet[str] = frozenset()
    confirm_everything: bool = False
    confirm_timeout: timedelta = timedelta(hours=8)

    def __post_init__(self) -> None:
        for switch in ("auto_continue", "allow_interrupt", "confirm_everything"):
            true_or_false(getattr(self, switch), switch)
        names = self.must_confirm
        if not isinstance(names, AbstractSet) or not all(isinstance(each, str) for each in names):
            raise InvalidInput("must_confirm_unreadable", given=repr(names))
        if not isinstance(self.confirm_timeout, timedelta) or self.confirm_timeout <= timedelta(0):
            raise InvalidInput("confirm_timeout_missing")

    def needs_confirmation(self, action: str) -> bool:
        return self.confirm_everything or action in self.must_confirm

    def as_json(self) -> dict[str, Any]:
        return {
            "auto_continue": self.auto_continue,
            "allow_interrupt": self.allow_interrupt,
            "must_confirm": sorted(self.must_confirm),
            "confirm_everything": self.confirm_everything,
            "confirm_timeout": self.confirm_timeout.total_seconds(),
        }

    @property
    def digest(self) -> str:
        """What the journal calls it."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]


CLOSED = Control(auto_continue=False, confirm_everything=True)  # when the control function fails


@dataclass(frozen=True, slots=True)
class Weighed:
    """The part of a task that the choice of the focus depends on: never its payload, context or kind."""

    number: int
    state: TaskState
    base: int
    ready_since: datetime | None = None
    due_by: datetime | None = None
    stack_index: int | None = None  # on the stack, the bottom is 0
    phase: Phase = "gap"
    holds: bool = False  # nothing may come between its action and its next decision
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The task that gets the focus, and whether it comes back from the stack."""

    number: int
    resumes: bool = False


Verdict = Literal["go on", "cancel", "hold", "interrupt", "unknown kind"]


@dataclass(frozen=True, slots=True)
class SafePoint:
    """The decision at a safe point: the focus goes on, ends, is held, or is interrupted by another task."""

    verdict: Verdict
    by: int | None = None


def base_priority(value: int) -> int:
    """Return a base that a task may have."""
    if not isinstance(value, int) or isinstance(value, bool) or not LOWEST <= value <= HIGHEST:
        raise InvalidInput("task_priority_outside", value=repr(value), least=LOWEST, most=HIGHEST)
    return value


def weight(task: Weighed, now: datetime, policy: Policy) -> int:
    """Return the base, and a little more the longer it has been ready."""
    if task.ready_since is None or now <= task.ready_since:
        return task.base
    return task.base + min(policy.aging_cap, (now - task.ready_since) // policy.aging_every)


def in_order(ready: Iterable[Weighed], now: datetime, policy: Policy) -> list[Weighed]:
    """Return the backlog as it would be served: by weight, then by deadline, then who has been ready longest."""

    def key(task: Weighed) -> tuple[Any, ...]:
        since = now if task.ready_since is None else task.ready_since
        return (-weight(task, now, policy), task.due_by is None, task.due_by or now, since, task.number)

    return sorted(ready, key=key)


def strongest(ready: Iterable[Weighed]) -> Weighed | None:
    """Return the ready task that could interrupt: the highest base at any age; of equals the one ready longest."""
    tasks = list(ready)
    if not tasks:
        return None
    return min(tasks, key=lambda task: (-task.base, task.ready_since is None, task.ready_since, task.number))


def may_interrupt(candidate: Weighed, focus: Weighed, *, depth: int, control: Control, policy: Policy) -> bool:
    """Return whether a ready task may push the focus onto the stack."""
    if not control.allow_interrupt or depth >= policy.depth:
        return False
    return candidate.base >= focus.base + policy.margin


def choose(tasks: Sequence[Weighed], now: datetime, control: Control, policy: Policy) -> Choice | None:
    """Choose who gets a free focus: the top of the stack, unless a ready task may interrupt it."""
    if not control.auto_continue or any(task.state == "running" for task in tasks):
        return None
    ready = [task for task in tasks if task.state == "ready"]
    top = top_of(tasks)
    if top is None:
        backlog = in_order(ready, now, policy)
        return Choice(backlog[0].number) if backlog else None
    rival = strongest(ready)
    if rival is not None and rival.base >= top.base + policy.margin and control.allow_interrupt:
        return Choice(rival.number)
    return Choice(top.number, resumes=True)


def top_of(tasks: Iterable[Weighed]) -> Weighed | None:
    """Return the task that was suspended last."""
    stack = [task for task in tasks if task.state == "suspended" and task.stack_index is not None]
    return max(stack, key=lambda task: task.stack_index or 0) if stack else None


def at_safe_point(focus: Weighed, tasks: Sequence[Weighed], control: Control, policy: Policy) -> SafePoint:
    """Return what becomes of the focus between two steps: a cancel comes first, then control, then a stronger task."""
    if focus.phase == "act":
        raise InvalidInput("no_safe_point")
    if focus.cancel_requested:
        return SafePoint("cancel")
    if focus.holds:
        return SafePoint("go on")
    if not control.auto_continue:
        return SafePoint("hold")
    depth = sum(task.state == "suspended" for task in tasks)
    rival = strongest(task for task in tasks if task.state == "ready")
    if rival is not None and may_interrupt(rival, focus, depth=depth, control=control, policy=policy):
        return SafePoint("interrupt", rival.number)
    return SafePoint("go on")


Deed = Literal["task", "steer", "coalesce", "wake", "log"]
DEEDS: tuple[str, ...] = get_args(Deed)
Reach = Literal["one", "all"]  # how many of those who wait for an event it wakes
REACHES: tuple[Reach, ...] = get_args(Reach)
ANY = "*"  # in the event of a rule: any characters


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule for a kind of event: make a task, tell the focus, merge, wake a task, or write a journal line.

    ``*`` in the event stands for any characters, as in ``db.*``. The exact name comes before a pattern, and a longer
    pattern before a shorter one.
    """

    event: str
    do: Deed
    kind: str | None = None
    priority: int = NORMAL
    key: str | None = None  # "alert:{id}": filled from the event's data; {event} is its name
    payload: Mapping[str, Any] = field(default_factory=dict)
    to: Reach = "one"  # with do="wake"

    def __post_init__(self) -> None:
        label(self.event, "event", 200)
        reach(self.to)
        base_priority(self.priority)
        if self.do not in DEEDS:
            raise InvalidInput("rule_action_unknown", event=self.event, action=self.do, choices=list(DEEDS))
        if not isinstance(self.payload, Mapping):
            raise InvalidInput("rule_payload_unreadable", event=self.event)
        encode(dict(self.payload), "payload of a rule")
        if self.kind:
            name(self.kind, "kind of task")
        if self.key:
            label(self.key, "key")
        if self.do in ("task", "coalesce") and not self.kind:
            raise InvalidInput("rule_kind_missing", event=self.event)
        if self.do == "coalesce" and not self.key:
            raise InvalidInput("rule_key_missing", event=self.event)

    def as_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"payload": dict(self.payload)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        return cls(**{each.name: data[each.name] for each in fields(cls) if each.name in data})


def reach(to: str) -> Reach:
    """Return how many waiting tasks an event wakes, or refuse another word."""
    if to not in REACHES:
        raise InvalidInput("choice_unknown", name="to", value=str(to), choices=list(REACHES))
    return "all" if to == "all" else "one"


def rule_for(rules: Iterable[Rule], event: str) -> Rule:
    """Return the rule of an event: its own, else the longest pattern that fits; without one it wakes a waiting task."""
    fitting = [each for each in rules if each.event == event or (ANY in each.event and _fits(each.event, event))]
    return max(fitting, key=lambda each: (each.event == event, len(each.event)), default=Rule(event, "wake"))


def _fits(pattern: str, event: str) -> bool:
    first, *middle, last = pattern.split(ANY)
    if len(event) < len(first) + len(last) or not (event.startswith(first) and event.endswith(last)):
        return False
    rest, at = event[: len(event) - len(last)], len(first)
    for part in middle:
        found = rest.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def wait_span(timeout: object, policy: Policy) -> timedelta:
    """Return a timeout that a wait may have: positive and finite. There is no wait without one."""
    if isinstance(timeout, int | float | str) and not isinstance(timeout, bool):
        try:
            timeout = span(timeout)
        except InvalidInput:
            timeout = None
    if not isinstance(timeout, timedelta) or timeout <= timedelta(0):
        raise InvalidInput("wait_timeout_missing")
    if timeout > policy.longest_wait:
        raise InvalidInput(
            "wait_too_long", timeout=timeout.total_seconds(), longest=policy.longest_wait.total_seconds()
        )
    return timeout
