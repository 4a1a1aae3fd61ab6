"""Drive a graph inside an agent's lane: each of its interrupts becomes an action or a wait with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from horae.adapters.answers import Answer, last_answer
from horae.adapters.extras import needs_extra
from horae.attention import Act, Directive, Done, Fail, Proceed, Turn, Wait
from horae.core.attention.directives import MAX_KEYS
from horae.errors import DefinitionError

with needs_extra("langgraph"):
    from langgraph.types import Command, Interrupt, StateSnapshot, interrupt

Kept = Mapping[str, Any]


def act(action: str, /, **arguments: Any) -> Answer:
    """Let the agent do an action, from inside a node; return what became of it.

    The node begins anew when the answer is there, so nothing before this call may change the world.
    """
    return Answer.from_json(interrupt({"action": action, "arguments": arguments}))


def wait_for(key: str, timeout: timedelta) -> Answer:
    """Wait for an event, from inside a node; the kind of the answer is ``event`` or ``timed_out``."""
    return Answer.from_json(interrupt({"wait": key, "timeout": timeout.total_seconds()}))


class GraphCognition:
    """A graph as the cognition of a kind of task: ``agent.cognition("ticket")(GraphCognition(graph))``.

    The graph needs a checkpointer, such as ``HoraeSaver``; its thread is the task. An interrupt whose value comes from
    :func:`act` becomes an action. Every other interrupt becomes a wait with a deadline: that of :func:`wait_for`, or
    *timeout* and the key ``interrupt:<id>``. Answers find their interrupt by its id. A turn that is repeated after a
    crash looks at the graph first and answers nothing twice. A task whose checkpoints were deleted meanwhile fails.
    """

    def __init__(
        self,
        graph: Any,
        *,
        timeout: timedelta = timedelta(days=1),
        begin: Callable[[Turn], Any] = lambda turn: turn.payload,
        result: Callable[[Any], Any] = lambda values: values,
    ) -> None:
        if not getattr(graph, "checkpointer", None):
            raise DefinitionError("graph_without_checkpointer")
        self._graph, self._timeout, self._begin, self._result = graph, timeout, begin, result

    async def __call__(self, turn: Turn) -> Directive:
        """Take one turn."""
        if approved := turn.facts.last("confirmed"):
            return Proceed(approved.grant, context=turn.context)
        if turn.facts.last("cancel_requested"):
            return Fail("cancelled", context=turn.context)
        config = {"configurable": {"thread_id": turn.task_id}}
        kept: Kept = turn.context or {}
        state = await self._graph.aget_state(config)
        if state.created_at is None and turn.number > 1:  # to begin anew would repeat what was done
            return Fail("the checkpoints of this task are gone: they were erased or pruned before it had ended")
        await self._advance(state, kept, turn, config)
        return self._decide(await self._graph.aget_state(config), kept, turn)

    async def _advance(self, state: StateSnapshot, kept: Kept, turn: Turn, config: Any) -> None:
        if state.created_at is None:
            await self._graph.ainvoke(self._begin(turn), config, durability="sync")
        elif answers := _answers(state, kept, turn):
            await self._graph.ainvoke(Command(resume=answers), config, durability="sync")
        elif state.tasks and not state.interrupts:  # an earlier try of this turn died halfway
            await self._graph.ainvoke(None, config, durability="sync")

    def _decide(self, state: StateSnapshot, kept: Kept, turn: Turn) -> Directive:
        if not state.interrupts:
            if state.tasks:  # not `next`, which leaves out tasks that have written and were not applied yet
                names = ", ".join(task.name for task in state.tasks)
                return Fail(f"the graph stopped before {names} without an interrupt()")
            return Done(self._result(state.values))
        waits = {each.id: self._wait(each, kept, turn) for each in state.interrupts if not _is_action(each)}
        for each in state.interrupts:
            if _is_action(each):
                context = {"asked": each.id, "waits": waits}
                return Act(each.value["action"], each.value["arguments"], context=context)
        first = sorted(waits.values(), key=lambda wait: str(wait["until"]))[:MAX_KEYS]
        left = datetime.fromisoformat(first[0]["until"]) - turn.now
        keys = list(dict.fromkeys(wait["key"] for wait in first))
        return Wait(keys, max(left, timedelta(milliseconds=1)), context={"waits": waits})

    def _wait(self, asked: Interrupt, kept: Kept, turn: Turn) -> dict[str, str]:
        """Return key and deadline of an interrupt; a deadline counts from when the interrupt was first seen."""
        known: dict[str, str] | None = kept.get("waits", {}).get(asked.id)
        if known is not None:
            return known
        value = asked.value if isinstance(asked.value, dict) else {}
        span = timedelta(seconds=value["timeout"]) if "timeout" in value else self._timeout
        return {"key": str(value.get("wait", f"interrupt:{asked.id}")), "until": (turn.now + span).isoformat()}


def _is_action(asked: Interrupt) -> bool:
    return isinstance(asked.value, dict) and "action" in asked.value


def _answers(state: StateSnapshot, kept: Kept, turn: Turn) -> dict[str, Any]:
    """Return the answers for interrupts that are still pending, by their ids."""
    pending = {each.id for each in state.interrupts}
    if kept.get("asked") in pending:
        return {kept["asked"]: last_answer(turn.facts).as_json()}
    found: dict[str, Any] = {}
    for number, wait in kept.get("waits", {}).items():
        event = turn.facts.last("event", key=wait["key"])
        if number in pending and event is not None:
            found[number] = Answer.of(event).as_json()
        elif number in pending and turn.facts.last("timed_out") and turn.now >= datetime.fromisoformat(wait["until"]):
            found[number] = Answer("timed_out", {}, wait["key"]).as_json()
    return found
