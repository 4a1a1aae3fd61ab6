# pydantic_ai_agent.py
"""A PydanticAI agent whose effects are actions: each has a key, a safe point after it, and a person before it.

Tools that read run inside a turn. Tools that change the world raise ``CallDeferred``; every deferred call becomes an
``Act``, one after the other, and what the action found becomes the result of the call. What is kept between turns is
the message history. It runs offline with PydanticAI's own ``FunctionModel``; give it a real model to let it think.
"""

from datetime import timedelta
from typing import Any

from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from horae.attention import Act, Attention, Control, Directive, Done, FactList, Facts, Proceed, Step, Turn

Thinker = Agent[None, str | DeferredToolRequests]
SENT: list[dict[str, Any]] = []  # what the outside world has seen of us


# -- the agent's own half ------------------------------------------------------------------------------------------


def support(model: Model) -> Thinker:
    thinker: Thinker = Agent(model, output_type=[str, DeferredToolRequests], instructions="You answer support tickets.")

    @thinker.tool_plain
    def look_up(order: str) -> dict[str, Any]:
        """Reading changes nothing, so it may happen again: it stays a tool."""
        return {"order": order, "paid": 40, "delivered": False}

    @thinker.tool_plain
    def refund(order: str, amount: int) -> str:
        raise CallDeferred

    @thinker.tool_plain
    def write_mail(to: str, text: str) -> str:
        raise CallDeferred

    return thinker


# -- the seam: turn -> run -> directive ----------------------------------------------------------------------------


async def think(thinker: Thinker, turn: Turn) -> Directive:
    """Take one turn. Kept between turns: messages, calls that are not done yet, results of those that are."""
    kept = turn.context or {"messages": None, "open": [], "results": {}}
    if approved := turn.facts.last("confirmed"):
        return Proceed(approved.grant, context=kept)
    if kept["open"] and (found := outcome(turn.facts)) is not None:
        call, *rest = kept["open"]
        kept = {**kept, "open": rest, "results": {**kept["results"], call["id"]: found}}
    if kept["open"]:
        return next_call(kept)
    if kept["messages"] is None:
        result = await thinker.run(turn.payload["text"])
    else:
        result = await thinker.run(
            message_history=ModelMessagesTypeAdapter.validate_python(kept["messages"]),
            deferred_tool_results=DeferredToolResults(calls=kept["results"]),
        )
    if isinstance(result.output, str):
        return Done({"answer": result.output})
    calls = [
        {"id": call.tool_call_id, "name": call.tool_name, "arguments": call.args_as_dict()}
        for call in result.output.calls
    ]
    messages = ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")
    return next_call({"messages": messages, "open": calls, "results": {}})


def next_call(kept: dict[str, Any]) -> Act:
    call = kept["open"][0]
    return Act(call["name"], call["arguments"], context=kept, note=f"{len(kept['open'])} calls to do")


def outcome(facts: FactList) -> Any:
    """Return what became of the call that was acted upon, for the model; None: nothing yet."""
    if done := facts.last("action_ok"):
        return {key: value for key, value in done.data.items() if key not in ("action", "step")}
    if failed := facts.last("action_failed"):
        return f"failed: {failed['error']}"
    if facts.last("action_unknown"):
        return "unknown: it may have happened. Look before you try again."
    if denied := facts.last("denied"):
        return f"denied by {denied['by']}: {denied.get('reason') or 'no reason given'}"
    if facts.last("timed_out"):
        return "nobody decided in time; this is not a refusal"
    return None


# -- the runtime's half --------------------------------------------------------------------------------------------


def attended(thinker: Thinker, store: str = "sqlite://") -> Attention:
    agent = Attention("support", store, turn_timeout=timedelta(minutes=2))

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"refund"}), confirm_timeout=timedelta(hours=8))

    @agent.action(effect="once")
    def refund(step: Step, order: str, amount: int) -> Facts:
        SENT.append({"refund": order, "amount": amount, "key": step.key})
        return Facts(receipt=f"r-{order}")

    @agent.action(effect="once")
    def write_mail(step: Step, to: str, text: str) -> Facts:
        SENT.append({"mail": to, "text": text, "key": step.key})
        return Facts(sent=True)

    @agent.cognition("ticket")
    async def ticket(turn: Turn) -> Directive:
        return await think(thinker, turn)

    return agent


# -- a model that needs no key ---------------------------------------------------------------------------------------


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Looks the order up, wants to refund and to write at once, and answers with what came of it."""
    returns = {
        part.tool_name: part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    if "look_up" not in returns:
        return ModelResponse(parts=[ToolCallPart("look_up", {"order": "A-17"})])
    if "refund" not in returns:
        return ModelResponse(
            parts=[
                ToolCallPart("refund", {"order": "A-17", "amount": 40}),
                ToolCallPart("write_mail", {"to": "c-17", "text": "We are sorry."}),
            ]
        )
    return ModelResponse(parts=[TextPart(f"refund: {returns['refund']}; mail: {returns['write_mail']}")])


def main(approve: bool = True) -> Any:
    with attended(support(FunctionModel(scripted))) as agent:
        added = agent.add("ticket", {"text": "Order A-17 never came."})
        waiting = agent.run(until="idle").waiting
        (_, (question,)) = waiting[0]
        print("a person is asked:", question.intent)
        agent.confirm(question.number, approve, actor="user/olga", reason="within our terms")
        agent.run(until="idle")
        task = agent.world.store.read(lambda tx: tx.attention.task(added.task.number))
        assert task is not None
        print(task.state, task.result)
        return task.result


if __name__ == "__main__":
    main()
