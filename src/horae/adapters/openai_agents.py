"""Agents of the OpenAI SDK on Horae: approvals that survive a restart, effects with keys, sessions in the database.

Needs the extra ``openai-agents``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from horae.actions.adapters import sessions
from horae.adapters.answers import Answer, last_answer
from horae.adapters.extras import needs_extra
from horae.app import Horae
from horae.attention import Act, Attention, Directive, Done, Fail, Proceed, Turn
from horae.core.jobs.job import SYSTEM
from horae.core.jobs.payloads import label
from horae.errors import DefinitionError

with needs_extra("openai-agents"):
    from agents import Agent, FunctionTool, RunConfig, Runner, RunState, TResponseInputItem, function_tool
    from agents.items import ToolApprovalItem
    from agents.memory import SessionSettings
    from agents.memory.session import SessionABC
    from agents.tool_context import ToolContext

__all__ = ["AgentCognition", "HoraeSession", "action_tool"]
_found: ContextVar[Mapping[str, Answer]] = ContextVar("horae_openai_answers", default={})  # noqa: B039 - never changed


def action_tool(function: Callable[..., Any]) -> FunctionTool:
    """Declare a tool whose effect is an action of the same name: the function gives name, text and arguments.

    Its body never runs. A call interrupts the run; the model hears what became of the action, and of one that may have
    happened it never hears that it was refused.
    """
    tool = function_tool(function, needs_approval=True)

    async def answer(ctx: ToolContext[Any], arguments: str) -> str:
        known = _found.get().get(ctx.tool_call_id)
        if known is None:
            raise DefinitionError("tool_outside_cognition", tool=tool.name)
        return json.dumps(known.for_model(), ensure_ascii=False)

    return replace(tool, on_invoke_tool=answer)


class AgentCognition:
    """An agent of the SDK as the cognition of a kind of task: ``agent.cognition("ticket")(AgentCognition(thinker))``.

    What is kept between turns is the ``RunState``. Every interruption becomes an action, one after the other: first
    those that the model asked for first. A turn that died is run again from its state; requests to the model may be
    made again. What a turn says is added to its session when it has ended, so that no item is in it twice, and none of
    a turn that failed.
    """

    def __init__(
        self,
        thinker: Agent[Any],
        *,
        begin: Callable[[Turn], Any] = lambda turn: turn.payload["text"],
        result: Callable[[Any], Any] = lambda output: {"answer": output},
        session: Callable[[Turn], HoraeSession] | None = None,
        run_config: RunConfig | None = None,
        max_turns: int = 10,
    ) -> None:
        self._thinker, self._begin, self._result, self._session = thinker, begin, result, session
        self._run_config, self._max_turns = run_config, max_turns

    async def __call__(self, turn: Turn) -> Directive:
        """Take one turn."""
        if approved := turn.facts.last("confirmed"):
            return Proceed(approved.grant, context=turn.context)
        if turn.facts.last("cancel_requested"):
            return Fail("cancelled", context=turn.context)
        if turn.context is None and turn.number > 1:  # to begin anew would repeat what was done
            return Fail("the state of this run is gone: it was erased before the task had ended")
        result = await self._run(turn)
        if not result.interruptions:
            return Done(self._result(result.final_output))
        asked = result.interruptions[0]
        context = {"state": result.to_state().to_json(), "asked": asked.call_id}
        return Act(str(asked.name), json.loads(asked.arguments or "{}"), context=context)

    async def _run(self, turn: Turn) -> Any:
        token = None
        session = None if self._session is None else TurnSession(self._session(turn))
        try:
            if turn.context is None:
                start: Any = self._begin(turn)
            else:
                start, found = await self._resumed(turn)
                token = _found.set(found)
            result = await Runner.run(
                self._thinker, start, session=session, run_config=self._run_config, max_turns=self._max_turns
            )
            if session is not None:
                await session.store(turn)
            return result
        finally:
            if token is not None:
                _found.reset(token)

    async def _resumed(self, turn: Turn) -> tuple[RunState[Any, Any], dict[str, Answer]]:
        """Return the state with the answer of the action that was asked for, and that answer by its call."""
        state = await RunState.from_json(self._thinker, turn.context["state"])
        asked, answer = turn.context["asked"], last_answer(turn.facts)
        item = _interruption(state, asked)
        if answer.happened is False:
            state.reject(item, rejection_message=json.dumps(answer.for_model(), ensure_ascii=False))
        else:
            state.approve(item)
        return state, {asked: answer}


def _interruption(state: RunState[Any, Any], call_id: str) -> ToolApprovalItem:
    return next(each for each in state.get_interruptions() if each.call_id == call_id)


class HoraeSession(SessionABC):
    """Keeps a conversation in the database: ``Runner.run(agent, text, session=HoraeSession(app, "customer-17"))``."""

    session_settings: SessionSettings | None = None

    def __init__(self, app: Horae | Attention, session_id: str, *, owner: str | None = None) -> None:
        self.session_id = label(session_id, "session id")
        self.owner = owner or (app.owner if isinstance(app, Attention) else SYSTEM)
        self._app = app

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, or the latest *limit* of them, the oldest first."""
        found: list[TResponseInputItem] = await self._call(sessions.items, limit)
        return found

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items behind the others; all of them or none."""
        await self._call(sessions.add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it."""
        last: TResponseInputItem | None = await self._call(sessions.pop)
        return last

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._call(sessions.rewind, 0)

    async def position(self) -> int:
        """Return where the session ends now."""
        found: int = await self._call(sessions.position)
        return found

    async def rewind(self, to: int) -> None:
        """Remove what was added behind a position."""
        await self._call(sessions.rewind, to)

    async def _call(self, verb: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(verb, self._app.world, self.owner, self.session_id, *arguments)


class TurnSession(SessionABC):
    """A session as one turn sees it: what is stored, and behind it what this turn has added and not stored yet."""

    def __init__(self, kept: HoraeSession) -> None:
        self.session_id, self.session_settings = kept.session_id, kept.session_settings
        self._kept, self._added = kept, list[TResponseInputItem]()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, or the latest *limit* of them, the oldest first."""
        found = [*await self._kept.get_items(limit), *self._added]
        return found if limit is None else found[max(0, len(found) - limit) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items behind the others, for this turn."""
        self._added += items

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it."""
        return self._added.pop() if self._added else await self._kept.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        self._added.clear()
        await self._kept.clear_session()

    async def store(self, turn: Turn) -> None:
        """Store what the turn has added, in the place of what an earlier try of it has stored before it died."""
        await self._kept.rewind(await turn.step_async("session", self._kept.position))
        await self._kept.add_items(self._added)
