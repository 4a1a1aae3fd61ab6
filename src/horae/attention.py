"""Attention: one agent, one focus, interruptible and resumable.

An agent decides in *cognitions* and acts through *actions*. Which task has the focus, and which is interrupted,
resumed or timed out, is decided here, by rules that never read the payload of a task.

.. code-block:: python

    agent = Attention("ops", store="sqlite:///ops.db")

    @agent.action(effect="idempotent")
    def read_source(step, n: int):
        return Facts(lines=40 + n)

    @agent.cognition("report")
    def report(turn):
        notes = (turn.context or []) + [fact["lines"] for fact in turn.facts.of("action_ok", "read_source")]
        if len(notes) == 4:
            return Done({"lines": sum(notes)})
        return Act("read_source", arguments={"n": len(notes) + 1}, context=notes)

    agent.add("report", priority=40)
    agent.run(until="idle")
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar

from sqlalchemy import Engine

from horae.actions.attention import inbox, journal, lanes, waits
from horae.actions.attention.inbox import Added, Posted
from horae.actions.attention.journal import Verified
from horae.actions.attention.lanes import Snapshot
from horae.app import Horae
from horae.core.attention.directives import (
    EFFECTS,
    Act,
    Directive,
    Done,
    Effect,
    Fact,
    FactList,
    Facts,
    Fail,
    Pending,
    Proceed,
    Wait,
    Yield,
)
from horae.core.attention.lanes import Line, Task, TaskWait, lane_name
from horae.core.attention.task import NORMAL, Control, Policy, Rule
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.core.jobs.payloads import name as check_name
from horae.errors import ConfigurationError, DefinitionError
from horae.ports import World
from horae.runtime.lanes.driver import ActionDef, AgentSpec, LaneDriver, Step, Turn
from horae.runtime.worker.calls import is_generator_function

__all__ = [
    "Act", "Attention", "Control", "Directive", "Done", "Fact", "FactList", "Facts", "Fail", "Pending", "Policy",
    "Proceed", "Rule", "Step", "Turn", "Wait", "Yield",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class Attention:
    """One agent's attention. Many agents share a store; any process may drive an agent, one process at a time."""

    def __init__(
        self,
        name: str,
        store: str | Engine | Horae | None = None,
        *,
        owner: str = SYSTEM,
        policy: Policy | None = None,
        turn_timeout: timedelta = timedelta(minutes=5),
        lease: timedelta = timedelta(seconds=30),
    ) -> None:
        self.name = lane_name(name)
        self.owner = label(owner, "owner")
        if min(lease, turn_timeout) <= timedelta(0):
            raise DefinitionError("lane_spans_too_short")
        self.policy = policy or Policy()
        self.app = store if isinstance(store, Horae) else Horae(store, name=f"attention:{name}")
        self._owns_app = not isinstance(store, Horae)
        self._turn_timeout, self._lease = turn_timeout, lease
        self._cognitions: dict[str, Callable[..., Any]] = {}
        self._actions: dict[str, ActionDef] = {}
        self._rules: dict[str, Rule] = {}
        self._control: Callable[[], Any] = Control
        self._driver: LaneDriver | None = None

    @property
    def world(self) -> World:
        return self.app.world

    def close(self) -> None:
        """Give all connections back, unless they belong to an application that was passed in."""
        if self._owns_app:
            self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what the agent brings -----------------------------------------------------------------------------------

    def cognition(self, kind: str) -> Callable[[F], F]:
        """Declare the function that decides about tasks of a kind: ``(turn) -> directive``, plain or async."""

        def declare(function: F) -> F:
            if check_name(kind, "kind of task") in self._cognitions:
                raise DefinitionError("cognition_declared_twice", kind=kind)
            _refuse_generator(f"cognition {kind}", function)
            self._cognitions[kind] = function
            return function

        return declare

    def action(
        self, *, effect: Effect = "once", timeout: timedelta = timedelta(seconds=25), name: str | None = None
    ) -> Callable[[F], F]:
        """Declare something the agent can do: ``(step, **arguments) -> Facts | Pending``, plain or async.

        *effect* says what a crash in the middle means: ``once`` (not repeated; cognition hears ``action_unknown``),
        ``idempotent`` (run again with the same key), ``transactional`` (``(step, connection, **arguments)``: shares
        the transaction that records it, so it happens exactly once).
        """
        if effect not in EFFECTS:
            raise DefinitionError("effect_unknown", effect=str(effect), choices=list(EFFECTS))
        if effect != "transactional" and not timedelta(0) < timeout:
            raise DefinitionError("action_timeout_too_short")

        def declare(function: F) -> F:
            known_as = check_name(name or function.__name__, "action")
            if known_as in self._actions:
                raise DefinitionError("action_declared_twice", name=known_as)
            _refuse_generator(f"action {known_as}", function)
            self._actions[known_as] = ActionDef(known_as, function, effect, timeout)
            return function

        return declare

    def control(self, function: F) -> F:
        """Declare the function that says what is allowed: ``() -> Control``, asked at every dispatch and safe point."""
        _refuse_generator("control", function)
        self._control = function
        return function

    def rule(self, rule: Rule) -> Rule:
        """Declare what becomes of an event; without a rule it wakes the task that waits for it, or is kept."""
        if rule.event in self._rules:
            raise DefinitionError("rule_declared_twice", event=rule.event)
        self._rules[rule.event] = rule
        return rule

    # -- from outside, from any process --------------------------------------------------------------------------

    def add(
        self,
        kind: str,
        payload: Any = None,
        *,
        priority: int = NORMAL,
        key: str | None = None,
        start_at: datetime | None = None,
        delay: timedelta | None = None,
        due_by: datetime | None = None,
        expires_at: datetime | None = None,
        actor: str = SYSTEM,
    ) -> Added:
        """Add a task; the same key twice is the same task."""
        return inbox.add(
            self.world, self.name, kind, payload, priority=priority, key=key, start_at=start_at, delay=delay,
            due_by=due_by, expires_at=expires_at, owner=self.owner, actor=actor,
        )  # fmt: skip

    def post(
        self, event: str, data: Mapping[str, Any] | None = None, *, event_id: str | None = None, actor: str = SYSTEM
    ) -> Posted:
        """Post an event to the agent; the same *event_id* twice is the same event.

        Where no rule is declared, as in a process that only posts, those of the agent's last driver decide.
        """
        rules: Sequence[Rule] | None = tuple(self._rules.values()) or None
        return inbox.post(
            self.world, self.name, event, data, event_id=event_id, rules=rules, owner=self.owner, actor=actor
        )

    def cancel(self, task_id: str, *, reason: str = "", graceful: bool = False, actor: str = SYSTEM) -> Task:
        """End a task; the one in focus ends at its next safe point."""
        return inbox.cancel(
            self.world, self.name, task_id, reason=reason, graceful=graceful, owner=self.owner, actor=actor,
            policy=self.policy,
        )  # fmt: skip

    def confirm(self, wait: int, approve: bool, *, actor: str, reason: str = "") -> TaskWait:
        """Answer a confirmation for a person. Never call it with the agent's own decision."""
        return waits.confirm(self.world, self.name, wait, approve, actor=actor, reason=reason, owner=self.owner)

    # -- driving -------------------------------------------------------------------------------------------------

    def driver(self, name: str | None = None) -> LaneDriver:
        """Return a driver of this lane for the running loop."""
        who = name or f"{socket.gethostname()}:{os.getpid()}:{self.world.dice.name(6)}"
        spec = AgentSpec(
            self.name, self.owner, dict(self._cognitions), dict(self._actions), self._control, self.policy,
            self._turn_timeout, self._lease, tuple(self._rules.values()),
        )  # fmt: skip
        return LaneDriver(self.world, spec, who)

    def run(self, until: Literal["idle"] = "idle") -> Snapshot:
        """Do all that can be done now, in this thread; what waits stays waiting."""
        if until != "idle":
            raise ConfigurationError("run_until_unknown", until=repr(until))
        asyncio.run(self._until_idle())
        return self.snapshot()

    async def _until_idle(self) -> None:
        await self.driver().until_idle()

    async def serve(self) -> None:
        """Drive the lane whenever no other process does, until :meth:`stop`."""
        self._driver = self.driver()
        await self._driver.serve()

    def stop(self) -> None:
        """End :meth:`serve` at the next safe point; from the loop's thread."""
        if self._driver is not None:
            self._driver.stop()

    # -- queries -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return focus, stack, backlog and waits."""
        return lanes.snapshot(self.world, self.name, owner=self.owner, policy=self.policy)

    def journal(self, since: int = 0, limit: int = 1000) -> list[Line]:
        """Return lines of the journal, the oldest first."""
        return journal.read_journal(self.world, self.name, owner=self.owner, since=since, limit=limit)

    def at(self, seq: int) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the lane as it was after a line of its journal."""
        return journal.at(self.world, self.name, seq, owner=self.owner)

    def verify(self) -> Verified:
        """Check that the journal is whole and folds back to the tables."""
        return journal.verify(self.world, self.name, owner=self.owner)


def _refuse_generator(what: str, function: Callable[..., Any]) -> None:
    if is_generator_function(function):
        raise DefinitionError("agent_function_is_generator", function=what)
