# durable_pydantic_ai.py
"""A Pydantic AI agent inside a job, whose model requests and tool calls are steps: no key, no network.

The first attempt dies after the tool was called. The second one gets both results back and makes only the last request.
"""

import asyncio
from datetime import timedelta
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from horae import Context, Horae, Retry
from horae.adapters.pydantic_ai import HoraeDurability, durable
from horae.testing import Lab

DONE: list[str] = []  # what cost money


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a model: asks for the weather once, then answers."""
    DONE.append("request")
    found = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if found:
        return ModelResponse(parts=[TextPart(f"It is {found[0]}.")])
    return ModelResponse(parts=[ToolCallPart("weather", {"city": "Athens"})])


thinker = Agent(FunctionModel(scripted), name="weather", capabilities=[HoraeDurability()])


@thinker.tool_plain
def weather(city: str) -> str:
    """Stands for a call that is paid for."""
    DONE.append(f"weather in {city}")
    return "sunny"


def application(store: Any = "sqlite://") -> Horae:
    app = Horae(store)

    @app.job("answer", retry=Retry.fixed(1, attempts=2))
    async def answer(ctx: Context, question: str) -> str:
        with durable(ctx):
            result = await thinker.run(question)
        if ctx.attempt == 1:
            raise RuntimeError("the printer is on fire")
        return result.output

    return app


async def main() -> dict[str, Any]:
    app = application()
    async with Lab(app) as lab:
        job = app.enqueue("answer", question="How is the weather?")
        await lab.advance(timedelta(minutes=1))
        return {"answer": lab.job(job).result, "attempts": len(lab.runs(job)), "done": DONE}


if __name__ == "__main__":
    print(asyncio.run(main()))
