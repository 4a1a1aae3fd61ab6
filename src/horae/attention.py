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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, ParamSpec, Self, TypeVar

from sqlalchemy import Engine

from horae.actions.attention import endings, events, inbox, journal, lanes, queries, waits
from horae.actions.attention.charges import Costs
from horae.actions.attention.events import Posted
from horae.actions.attention.inbox import Added
from horae.actions.attention.journal import JournalHead, Verified
from horae.actions.attention.lanes import Snapshot
from horae.app import Horae
from horae.core.attention.directives import (
    EFFECTS,
    KEEP,
    Act,
    Child,
    Directive,
    Done,
    Effect,
    Facts,
    Fail,
    Join,
    Pending,
    Proceed,
    Sleep,
    Start,
    Wait,
    Yield,
)
from horae.core.attention.facts import Fact, FactList
from horae.core.attention.lanes import Line, Task, TaskWait, lane_name
from horae.core.attention.task import NORMAL, Control, Policy, Reach, Rule
from horae.core.governance.budgets import amounts_from, job_budget
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.core.jobs.payloads import name as check_name
from horae.core.time.spans import Span, span
from horae.errors import ConfigurationError, DefinitionError
from horae.ports.world import World
from horae.runtime.lanes.driver import LaneDriver
from horae.runtime.lanes.results import outcome, wait_for_end
from horae.runtime.lanes.spec import ActionDef, AgentSpec, Step, Turn
from horae.runtime.worker.calls import is_generator_function

__all__ = [
    "KEEP", "Act", "Attention", "Child", "Control", "Directive", "Done", "Fact", "FactList", "Facts", "Fail", "Join",
    "Pending", "Policy", "Proceed", "Rule", "Sleep", "Start", "Step", "Turn", "Wait", "Yield",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")


class Attention:
    """One agent's attention. Many agents share a store; any process may drive an agent, one process at a time."""

    def __init__(
        self,
        name: str,
        store: str | Engine | Horae | None = None,
        *,
        owner: str = SYSTEM,
        policy: Policy | None = None,
        turn_timeout: Span = timedelta(minutes=5),
        lease: Span = timedelta(seconds=30),
        budget: str | None = None,
    ) -> None:
        self.name = lane_name(name)
        self.owner = label(owner, "owner")
        self._turn_timeout, self._lease = span(turn_timeout), span(lease)
        if min(self._lease, self._turn_timeout) <= timedelta(0):
            raise DefinitionError("lane_spans_too_short")
        self.policy = policy or Policy()
        self.app = store if isinstance(store, Horae) else Horae(store, name=f"attention:{name}")
        self._owns_app = not isinstance(store, Horae)
        self._budget = job_budget(budget, None)
        self._costs: dict[str, dict[str, dict[str, int]]] = {"turns": {}, "steps": {}}
        self._cognitions: dict[str, Callable[..., Any]] = {}
        self._actions: dict[str, ActionDef] = {}
        self._rules: dict[str, Rule] = {}
        self._control: Callable[[], Any] = Control
        self._driver: LaneDriver | None = None
        self.aio = AsyncVerbs(self)

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

    def cognition(self, kind: str, *, cost: Mapping[str, int] | None = None) -> Callable[[F], F]:
        """Declare the function that decides about tasks of a kind: ``(turn) -> directive``, plain or async.

        *cost* is the most that one turn takes from the agent's budget, as ``{"tokens": 8000}``.
        """

        def declare(function: F) -> F:
            if check_name(kind, "kind of task") in self._cognitions:
                raise DefinitionError("cognition_declared_twice", kind=kind)
            _refuse_generator(f"cognition {kind}", function)
            self._cognitions[kind] = function
            self._note_cost("turns", kind, cost)
            return function

        return declare

    def action(
        self, *, effect: Effect = "once", timeout: Span = timedelta(seconds=25), name: str | None = None,
        cost: Mapping[str, int] | None = None,
    ) -> Callable[[F], F]:  # fmt: skip
        """Declare something the agent can do: ``(step, **arguments) -> Facts | Pending``, plain or async.

        *effect* says what a crash in the middle means: ``once`` (not repeated; cognition hears ``action_unknown``),
        ``idempotent`` (run again with the same key), ``transactional`` (``(step, connection, **arguments)``: shares
        the transaction that records it, so it happens exactly once). *timeout* bounds all of them; a transactional one
        is rolled back then. *cost* is the most that a step takes from the agent's budget.
        """
        if effect not in EFFECTS:
            raise DefinitionError("effect_unknown", effect=str(effect), choices=list(EFFECTS))
        limit = span(timeout)
        if not timedelta(0) < limit:
            raise DefinitionError("action_timeout_too_short")

        def declare(function: F) -> F:
            known_as = check_name(name or function.__name__, "action")
            if known_as in self._actions:
                raise DefinitionError("action_declared_twice", name=known_as)
            _refuse_generator(f"action {known_as}", function)
            self._actions[known_as] = ActionDef(known_as, function, effect, limit)
            self._note_cost("steps", known_as, cost)
            return function

        return declare

    def _note_cost(self, what: str, name: str, cost: Mapping[str, int] | None) -> None:
        if cost is not None:
            if self._budget is None:
                raise DefinitionError("agent_cost_without_budget", name=name)
            self._costs[what][name] = amounts_from(cost)

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
        delay: Span | None = None,
        due_by: datetime | None = None,
        expires_at: datetime | None = None,
        actor: str = SYSTEM,
    ) -> Added:
        """Add a task; the same key twice is the same task."""
        return inbox.add(
            self.world, self.name, kind, payload, priority=priority, key=key, start_at=start_at,
            delay=None if delay is None else span(delay), due_by=due_by, expires_at=expires_at, owner=self.owner,
            actor=actor,
        )  # fmt: skip

    def post(
        self, event: str, data: Mapping[str, Any] | None = None, *, event_id: str | None = None,
        to: Reach | None = None, actor: str = SYSTEM,
    ) -> Posted:  # fmt: skip
        """Post an event to the agent; the same *event_id* twice is the same event.

        It wakes *one* of the tasks that wait for it, the first, or *all*; left out, its rule decides. Where no rule is
        declared, as in a process that only posts, those of the agent's last driver decide.
        """
        rules: Sequence[Rule] | None = tuple(self._rules.values()) or None
        return events.post(
            self.world, self.name, event, data, event_id=event_id, rules=rules, to=to, owner=self.owner, actor=actor
        )

    def cancel(self, task_id: str, *, reason: str = "", graceful: bool = False, actor: str = SYSTEM) -> Task:
        """End a task; the one in focus ends at its next safe point."""
        return endings.cancel(
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
            Costs(self._budget, self._costs["turns"], self._costs["steps"]),
        )  # fmt: skip
        return LaneDriver(self.world, spec, who)

    def run(self, until: Literal["idle"] = "idle") -> Snapshot:
        """Do all that can be done now, in this thread; what waits stays waiting.

        After a crash the lane belongs to the driver that died until its lease has run out: this waits for it, says so
        in the log, and goes on. Where that driver lives, nothing is done here.
        """
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

    def task(self, task_id: str) -> Task:
        """Return a task as it is now: its state, turns, steps, result and reason."""
        return queries.get_task(self.world, self.name, task_id, owner=self.owner)

    def result(self, task_id: str, *, timeout: Span | None = None) -> Any:
        """Return what a completed task has answered; wait for its end for up to *timeout*.

        One that has not ended, has failed or was cancelled is a Conflict, which says so.
        """
        found = self.task(task_id)
        return outcome(found if timeout is None else wait_for_end(self.world, self.task, found, span(timeout)))

    def snapshot(self) -> Snapshot:
        """Return focus, stack, backlog and waits."""
        return lanes.snapshot(self.world, self.name, owner=self.owner, policy=self.policy)

    def journal(self, since: int = 0, limit: int = 1000) -> list[Line]:
        """Return lines of the journal, the oldest first."""
        return journal.read_journal(self.world, self.name, owner=self.owner, since=since, limit=limit)

    def at(self, seq: int) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the lane as it was after a line of its journal; what had ended before is left out."""
        return journal.at(self.world, self.name, seq, owner=self.owner)

    def head(self) -> JournalHead:
        """Return the last sealed line of the journal and its hash; kept elsewhere, it proves what was there."""
        return journal.head(self.world, self.name, owner=self.owner)

    def verify(self) -> Verified:
        """Check that the journal is whole and folds back to the tables."""
        return journal.verify(self.world, self.name, owner=self.owner)


class AsyncVerbs:
    """The verbs and queries of an agent, to be awaited; each runs in a thread, so that the loop goes on."""

    def __init__(self, agent: Attention) -> None:
        self.add = _awaited(agent.add)
        self.post = _awaited(agent.post)
        self.cancel = _awaited(agent.cancel)
        self.confirm = _awaited(agent.confirm)
        self.task = _awaited(agent.task)
        self.result = _awaited(agent.result)
        self.snapshot = _awaited(agent.snapshot)
        self.journal = _awaited(agent.journal)
        self.at = _awaited(agent.at)
        self.head = _awaited(agent.head)
        self.verify = _awaited(agent.verify)


def _awaited(verb: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    async def call(*args: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(verb, *args, **named)

    return call


def _refuse_generator(what: str, function: Callable[..., Any]) -> None:
    if is_generator_function(function):
        raise DefinitionError("agent_function_is_generator", function=what)
