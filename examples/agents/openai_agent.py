# openai_agent.py
"""An agent of the OpenAI SDK whose refund waits for a person, through any restart: no key, no network.

The tool ``refund`` changes nothing: its calls become an action of the same name. ``Scripted`` stands for a model.
"""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Usage
from agents.testing import assistant_message, function_call

from horae.adapters.openai_agents import AgentCognition, HoraeSession, action_tool
from horae.attention import Attention, Control, Facts, Step

SENT: list[dict[str, Any]] = []  # what the outside world has seen of us


class Scripted(Model):
    """Asks for a refund, then says what it heard of it."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        heard = [each["output"] for each in input if isinstance(each, dict) and "output" in each]
        if not heard:
            items = [function_call("refund", {"order": "A-17", "amount": 40}, call_id="call-1")]
        else:
            items = [assistant_message(f"heard: {json.loads(heard[-1])['outcome']}")]
        return ModelResponse(output=items, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@action_tool
def refund(order: str, amount: int) -> str:
    """Pay an amount back.

    Args:
        order: The order that is refunded.
        amount: How much, in euros.
    """
    raise NotImplementedError  # the effect is the action of the same name


def support(store: Any = "sqlite://", model: Model | None = None) -> Attention:
    agent = Attention("support", store)
    thinker = Agent(name="support", model=model or Scripted(), tools=[refund])
    cognition = AgentCognition(
        thinker,
        session=lambda turn: HoraeSession(agent, f"customer-{turn.payload['customer']}"),
        run_config=RunConfig(tracing_disabled=True),  # traces go to OpenAI otherwise
    )
    agent.cognition("ticket")(cognition)

    @agent.control
    def control() -> Control:
        return Control(must_confirm=frozenset({"refund"}), confirm_timeout=timedelta(hours=8))

    @agent.action(effect="once", name="refund")
    def pay(step: Step, order: str, amount: int) -> Facts:
        SENT.append({"order": order, "amount": amount, "key": step.key})
        return Facts(receipt=f"r-{order}")

    return agent


def main(approve: bool = True) -> dict[str, Any]:
    with support() as agent:
        agent.add("ticket", {"customer": "17", "text": "Order A-17 never came."})
        (_, (question,)) = agent.run(until="idle").waiting[0]
        print("waits for a person:", question.intent)
        agent.confirm(question.number, approve, actor="user/olga")
        agent.run(until="idle")
        return {"sent": len(SENT), "idle": agent.snapshot().is_idle, "sound": agent.verify().is_sound}


if __name__ == "__main__":
    print(main())
