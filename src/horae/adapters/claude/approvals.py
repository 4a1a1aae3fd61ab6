"""Deferred tool calls of a session: each becomes a confirmation that waits for a person, through any restart."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Any

from horae.actions.adapters import documents
from horae.adapters.answers import last_answer
from horae.adapters.claude.wake_ups import safe_name
from horae.attention import Act, Attention, Control, Directive, Done, Facts, Proceed, Step, Turn
from horae.core.jobs.payloads import encode

log = logging.getLogger("horae.claude")
DECISION = "claude.decision"
TOOL, TELL = "claude_tool", "claude_tell"
LONG = timedelta(minutes=30)  # for the turn of a session that is resumed
Resume = Callable[[str, str], Awaitable[Any]]  # the id of a session, and what it is told


class Approvals:
    """Asks a person before some tools are used; ``Approvals(agent, {"Bash"}, resume).on_tool`` is a *PreToolUse* hook.

    A call of such a tool is deferred: the hook stores a task of *agent*, whose confirmation shows tool and input, and
    answers ``defer``, naming the task. When a person has decided, or the time is up, the session is resumed and the
    hook is asked again: exactly the call that was approved is allowed, once. What was not decided in time is denied as
    *not decided*, never as refused. The lane of *agent* must be driven, and is for these tasks alone.
    """

    def __init__(
        self, agent: Attention, tools: AbstractSet[str], resume: Resume, *, timeout: timedelta = timedelta(hours=8)
    ) -> None:
        self._agent, self._tools, self._resume = agent, frozenset(tools), resume
        agent.control(lambda: Control(must_confirm=frozenset({TOOL}), confirm_timeout=timeout))
        agent.cognition(TOOL)(self._decide)
        agent.action(effect="idempotent", name=TOOL, timeout=LONG)(self._allow)
        agent.action(effect="idempotent", name=TELL, timeout=LONG)(self._tell)

    async def on_tool(self, hook_input: Mapping[str, Any], _tool_use_id: Any = None, _context: Any = None) -> Any:
        """Answer *PreToolUse*: nothing for other tools, and allow, deny or defer for these."""
        if hook_input.get("tool_name") not in self._tools:
            return {}
        try:
            return await asyncio.to_thread(self._answer, hook_input)
        except Exception as problem:  # the SDK takes a hook that raises for one without an opinion, and runs the tool
            log.exception("no person could be asked about %s", hook_input.get("tool_name"))
            return _decision("deny", f"No person could be asked, so this is not decided: {problem}")

    def _answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        name = _call_name(asked)
        known = documents.get(self._agent.world, self._agent.owner, DECISION, name)
        if known is None:
            call = {field: asked[field] for field in ("session_id", "tool_name", "tool_input", "tool_use_id")}
            made = self._agent.add(TOOL, {**call, "name": name}, key=name)
            return _decision("defer", f"A person is asked: task {made.task.id} of {self._agent.name}.")
        if known["decision"] == "deny":
            return _decision("deny", known["reason"])
        if documents.exchange(self._agent.world, self._agent.owner, DECISION, name, ALLOWED, USED):
            return _decision("allow", known["reason"])
        return _decision("deny", USED["reason"])

    # -- the lane ------------------------------------------------------------------------------------------------

    async def _decide(self, turn: Turn) -> Directive:
        call = {name: turn.payload[name] for name in ("tool_name", "tool_input", "session_id", "name")}
        if approved := turn.facts.last("confirmed"):
            return Proceed(approved.grant, context=turn.context)
        if turn.context is None:
            return Act(TOOL, call, context={"asked": True})
        answer = last_answer(turn.facts)
        if "told" in turn.context or answer.kind.startswith("action_"):
            return Done({"outcome": turn.context.get("told", answer.kind)})
        said = "A person has refused this." if answer.kind == "denied" else "No person has decided in time."
        return Act(TELL, {**call, "reason": said}, context={"told": answer.kind})

    async def _allow(self, step: Step, tool_name: str, tool_input: Any, session_id: str, name: str) -> Facts:
        return await self._settle(step, name, ALLOWED, session_id, f"{tool_name}: a person has approved this call.")

    async def _tell(
        self, step: Step, tool_name: str, tool_input: Any, session_id: str, name: str, reason: str
    ) -> Facts:
        refused = {"decision": "deny", "reason": reason}
        return await self._settle(step, name, refused, session_id, f"{tool_name}: {reason}")

    async def _settle(self, step: Step, name: str, decision: Mapping[str, str], session_id: str, said: str) -> Facts:
        """Store the decision, then resume the session; after a crash only what is missing is done again."""
        world, owner = self._agent.world, self._agent.owner
        await asyncio.to_thread(documents.add, world, owner, DECISION, name, decision)

        async def resume() -> None:
            await self._resume(session_id, said)

        await step.step_async("resume", resume)
        return Facts()


ALLOWED = {"decision": "allow", "reason": "A person has approved exactly this call."}
USED = {"decision": "deny", "reason": "This approval has been used; ask again for another call."}


def _call_name(asked: Mapping[str, Any]) -> str:
    """Return the name of a call: another input is another call, also under the same id."""
    whole = encode([asked["tool_name"], asked["tool_input"]], "input of a tool", None)
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    return f"{safe_name(asked['session_id'])}:{safe_name(asked['tool_use_id'])}:{digest}"


def _decision(decision: str, reason: str) -> dict[str, Any]:
    said = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": said}
