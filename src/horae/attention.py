"""Attention: one agent, one focus, interruptible and resumable.

An agent decides in *cognitions* and acts through *actions*; what deserves its focus now, what is interrupted, resumed,
waited for and timed out is decided here, by rules that never read what a task is about.

.. code-block:: python

    agent = Attention("ops", store="sqlite:///ops.db")

    @agent.action(effect="idempotent")
    def read_source(step, n: int):
        return Facts(lines=40 + n)

    @agent.cognition("report")
    def report(turn):
        notes = (turn.context or []) + [fact["lines"] for fact in turn.facts.of("action_ok", "read_source")]
        return Done({"lines": sum(notes)}) if len(notes) == 4 else Act("read_source", n=len(notes) + 1, context=notes)

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
from horae.core.jobs.payloads import name as checked_name
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
    """One agent's attention. Many share a store; any process may drive one, one at a time."""

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
            raise DefinitionError("A lane needs a lease above zero, and a turn a time limit above zero.")
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
        """Declare who decides about tasks of a kind: ``(turn) -> directive``, plain or async."""

        def declare(function: F) -> F:
            if checked_name(kind, "kind of task") in self._cognitions:
                raise DefinitionError(f"Tasks of kind {kind!r} have a cognition already; declare one for each kind.")
            _refuse_generator(f"The cognition of {kind!r}", function)
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
            raise DefinitionError(f"Unknown effect {effect!r}; choose one of {', '.join(EFFECTS)}.")
        if effect != "transactional" and not timedelta(0) < timeout:
            raise DefinitionError("An action needs a time limit above zero.")

        def declare(function: F) -> F:
            known_as = checked_name(name or function.__name__, "action")
            if known_as in self._actions:
                raise DefinitionError(f"There is already an action {known_as!r}; choose another name.")
            _refuse_generator(f"The action {known_as!r}", function)
            self._actions[known_as] = ActionDef(known_as, function, effect, timeout)
            return function

        return declare

    def control(self, function: F) -> F:
        """Declare who says what is allowed: ``() -> Control``, asked at every dispatch and safe point."""
        _refuse_generator("The control function", function)
        self._control = function
        return function

    def rule(self, rule: Rule) -> Rule:
        """Declare what becomes of an event; without a rule it wakes whoever waits for it, or is kept."""
        if rule.event in self._rules:
            raise DefinitionError(f"There is already a rule for {rule.event!r}.")
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
        """Give the agent something to attend to; the same key twice is the same task."""
        return inbox.add(
            self.world, self.name, kind, payload, priority=priority, key=key, start_at=start_at, delay=delay,
            due_by=due_by, expires_at=expires_at, owner=self.owner, actor=actor,
        )  # fmt: skip

    def post(
        self, event: str, data: Mapping[str, Any] | None = None, *, event_id: str | None = None, actor: str = SYSTEM
    ) -> Posted:
        """Tell the agent that something happened; the same *event_id* twice is the same event.

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
        """A person's answer to a confirmation. Never call it with the agent's own word."""
        return waits.confirm(self.world, self.name, wait, approve, actor=actor, reason=reason, owner=self.owner)

    # -- driving -------------------------------------------------------------------------------------------------

    def driver(self, name: str | None = None) -> LaneDriver:
        """One that drives this lane in the running loop."""
        who = name or f"{socket.gethostname()}:{os.getpid()}:{self.world.dice.name(6)}"
        spec = AgentSpec(
            self.name, self.owner, dict(self._cognitions), dict(self._actions), self._control, self.policy,
            self._turn_timeout, self._lease, tuple(self._rules.values()),
        )  # fmt: skip
        return LaneDriver(self.world, spec, who)

    def run(self, until: Literal["idle"] = "idle") -> Snapshot:
        """Do all that can be done now, in this thread; what waits stays waiting."""
        if until != "idle":
            raise ConfigurationError(f"run(until={until!r}) is not known; use until='idle', or await serve().")
        asyncio.run(self._until_idle())
        return self.snapshot()

    async def _until_idle(self) -> None:
        await self.driver().until_idle()

    async def serve(self) -> None:
        """Drive the lane whenever nobody else does, until :meth:`stop`."""
        self._driver = self.driver()
        await self._driver.serve()

    def stop(self) -> None:
        """End :meth:`serve` at the next safe point; from the loop's thread."""
        if self._driver is not None:
            self._driver.stop()

    # -- look ----------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Focus, stack, backlog and waits."""
        return lanes.snapshot(self.world, self.name, owner=self.owner, policy=self.policy)

    def journal(self, since: int = 0, limit: int = 1000) -> list[Line]:
        """What happened, line by line."""
        return journal.read_journal(self.world, self.name, owner=self.owner, since=since, limit=limit)

    def at(self, seq: int) -> dict[str, dict[int, dict[str, Any]]]:
        """The lane as it was after a line of its journal."""
        return journal.at(self.world, self.name, seq, owner=self.owner)

    def verify(self) -> Verified:
        """Whether the journal is whole and folds back to the tables."""
        return journal.verify(self.world, self.name, owner=self.owner)


def _refuse_generator(what: str, function: Callable[..., Any]) -> None:
    if is_generator_function(function):
        raise DefinitionError(
            f"{what} is a generator function: calling it would run none of its code. Remove the yield."
        )
